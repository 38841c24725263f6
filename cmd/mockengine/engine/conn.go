package engine

import (
	"errors"
	"net"
	"time"
)

// How an exchange ends its connection.
var (
	errHangUp = errors.New("connection is to be closed")
	errReset  = errors.New("connection is to be reset")
	errGone   = errors.New("peer has left")
)

// conn serves one connection. All but peer's reading ahead happens in its one goroutine.
type conn struct {
	e     *Engine
	peer  *peer
	timer *time.Timer // made at the first wait

	nth   int // number of the request within the connection, from 1
	head  head
	at    time.Time // when the head had come in
	body  []byte
	fault *Fault
	pace  pace
	ride  *ride // the request in the model; nil if it has no part in the answer

	unchunked []byte // a chunked body, put together
	text      []byte // a body or event being written
	out       []byte // bytes to be sent
	answer    answer
}

func newConn(e *Engine, nc net.Conn, number int64) *conn {
	return &conn{e: e, peer: newPeer(nc, number, func(f func()) { e.wg.Go(f) })}
}

func (c *conn) serve() {
	err := c.exchanges()
	if tcp, ok := c.peer.nc.(interface{ SetLinger(seconds int) error }); ok && errors.Is(err, errReset) {
		_ = tcp.SetLinger(0)
	}
	_ = c.peer.nc.Close()
	c.e.forget(c.peer.nc)
}

func (c *conn) exchanges() error {
	for {
		raw, err := c.peer.head()
		if err != nil {
			return c.refuseHead(err)
		}
		c.nth++
		c.at = time.Now()
		if err := c.head.parse(raw); err != nil {
			return c.refuseHead(err)
		}
		if err := c.exchange(); err != nil {
			return err
		}
		if c.head.close {
			return errHangUp
		}
		c.trim()
	}
}

// trim gives up buffers that a large request has made large.
func (c *conn) trim() {
	c.body, c.answer.ask = nil, ask{} // parts of buffers that may go
	for _, b := range []*[]byte{&c.unchunked, &c.text, &c.out} {
		if cap(*b) > keptBuffer {
			*b = nil
		}
	}
}

// exchange serves one request, whose head has been read.
func (c *conn) exchange() error {
	c.fault = nil
	r, control := c.e.route(&c.head)
	if control {
		return c.control()
	}
	c.fault = c.e.faults.pick(&c.head, c.nth)
	c.pace = c.e.pace.slowed(c.fault)
	r.requests.Add(1)
	if err := c.receive(); err != nil {
		return err
	}
	if r.infers && string(c.head.method) == "POST" {
		c.e.counters.begin()
		defer c.e.counters.end()
	}
	if c.fault != nil {
		if done, err := c.misbehave(); done {
			return err
		}
	}
	return c.e.serve(c, r)
}

// receive reads the body and puts the request into the log, at its head already if the body is still on its way.
func (c *conn) receive() error {
	early := c.fault != nil && c.fault.CloseAfterHead
	if !early && c.peer.has(&c.head) && !c.head.chunked {
		c.body, _ = c.peer.readBody(&c.head, nil)
		c.e.log.addWhole(&c.head, c.body, c.peer.fate, c.at)
		return nil
	}
	rec := c.e.log.add(&c.head, c.peer.fate, c.at)
	if early {
		c.e.log.finish(rec, nil)
		return errHangUp
	}
	err := c.readBody()
	c.e.log.finish(rec, c.body)
	if errors.Is(err, errMalformed) || errors.Is(err, errBodySize) {
		return c.refuseHead(err)
	}
	return err
}

func (c *conn) readBody() (err error) {
	if c.head.expect && !c.peer.has(&c.head) {
		if err := c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	c.body, err = c.peer.readBody(&c.head, c.unchunked)
	if c.head.chunked {
		c.unchunked = c.body
	}
	return err
}

func (c *conn) write(b []byte) error {
	_, err := c.peer.nc.Write(b)
	if err != nil {
		c.peer.lost(err)
	}
	return err
}

// until waits until d after the head of the request; errGone if the peer leaves before.
func (c *conn) until(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return c.sleep(d - time.Since(c.at))
}

func (c *conn) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	c.peer.watch()
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	select {
	case <-c.timer.C:
		return nil
	case <-c.peer.gone:
		c.timer.Stop()
		return errGone
	}
}

// hang waits for ever, which is until the peer leaves.
func (c *conn) hang() error {
	c.peer.watch()
	<-c.peer.gone
	return errGone
}
