package forward

import (
	"context"
	"errors"
	"net"
	"time"
)

// tcpKeepAlive is how often the kernel asks whether a silent peer is still there.
const tcpKeepAlive = 30 * time.Second

// errLate is the cause of a call whose deadline had passed before it began.
var errLate = context.DeadlineExceeded

// connect gives the call a connection: an idle one, or with fresh, or if there is none, a new one.
func (t *Transport) connect(c *call, fresh bool) (*conn, *failure) {
	s := t.stack(address{c.Endpoint.Dial, c.Pool})
	if !fresh {
		if idle := s.take(!c.resendable()); idle != nil {
			if c.attach(nil, idle) {
				t.connected(true, 0)
				return idle, nil
			}
			s.put(idle)
			return nil, c.failed(errInterrupted, false, context.Canceled)
		}
	}
	return t.dial(c, s)
}

// dial makes a connection. While it does the call holds a stand-in, whose interruption gives up dialling.
func (t *Transport) dial(c *call, s *stack) (*conn, *failure) {
	ctx, cancel := context.WithCancel(context.Background())
	if !c.Deadline.IsZero() {
		cancel()
		ctx, cancel = context.WithDeadline(context.Background(), c.Deadline)
	}
	defer cancel()
	standIn := &conn{cancel: cancel}
	if !c.attach(nil, standIn) {
		return nil, c.failed(errInterrupted, false, context.Canceled)
	}
	dialer := net.Dialer{Timeout: c.DialTimeout, KeepAlive: tcpKeepAlive}
	began := time.Now()
	nc, err := dialer.DialContext(ctx, "tcp", c.Endpoint.Dial)
	if err != nil {
		f := c.failed(errDial, false, err)
		if errors.Is(ctx.Err(), errLate) && f.Kind == errDial {
			f.Kind = errTimeout
		}
		c.detach(standIn)
		return nil, f
	}
	made := &conn{net: nc, transport: t, stack: s}
	made.buf = made.small[:]
	made.watch()
	t.open.Add(1)
	t.connected(false, time.Since(began))
	if !c.attach(standIn, made) {
		made.close()
		return nil, c.failed(errInterrupted, false, context.Canceled)
	}
	return made, nil
}
