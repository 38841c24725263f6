package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// conn is one client connection. It knows what net/http knows and does not tell: that the client has left. And it keeps away from
// the system what net/http asks of it for every request and hardly ever needs.
type conn struct {
	net.Conn
	patience atomic.Int64 // nanoseconds that one read of a body may wait; 0: for ever
	hangups  *hangups     // who watches the connection; nil if net/http does, with its background read
	place    place        // where hangups knows it

	state    atomic.Int32    // an http.ConnState; until the first request it is new
	heard    atomic.Bool     // the client has sent something
	wanted   atomic.Bool     // the read that is under way is of a body that somebody wants
	leftover atomic.Int64    // when net/http has to be through with a body that nobody wants, in nanoseconds since began; 0: it has not begun
	cut      atomic.Bool     // it was not: the client may still be sending
	timedOut func(idle bool) // told once; nil then
	late     bool            // it has been; of the goroutine that reads, and writes if there is no request

	deadline atomic.Int64 // the read deadline that net/http has asked for, in nanoseconds since began; 0: none
	set      int64        // the one that the socket has; the reading goroutine's

	guard guard // of what is read; the reading goroutine's

	departure pipeline.Departure
}

// clientListener hands out connections that notice when their client leaves, but for those with HTTP/2: net/http insists on the
// type of theirs, and tells for each of their requests when the client has left.
type clientListener struct {
	net.Listener
	hangups  *hangups
	timedOut func(idle bool) // told when a client has sent nothing, or no whole head, for too long
}

func (l clientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	secure, _ := c.(*tls.Conn)
	if secure != nil && secure.ConnectionState().NegotiatedProtocol == "h2" {
		return c, nil
	}
	own := &conn{Conn: c, timedOut: l.timedOut}
	if l.hangups.add(own) {
		own.hangups = l.hangups
	}
	if secure != nil {
		return secureConn{own, secure}, nil
	}
	return own, nil
}

// secureConn is a connection over TLS. That it has a ConnectionState makes net/http tell of it in requests.
type secureConn struct {
	*conn
	secure *tls.Conn
}

// ConnectionState is that of the handshake, which is over.
func (c secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// Read reads from the network. The background read of net/http, which alone asks for a single byte, ends at once and without an
// effect if the connection is watched otherwise: it is there to notice a client that leaves, and costs a goroutine's sleep, a
// read and two deadlines a request.
func (c *conn) Read(p []byte) (int, error) {
	if c.guard.err != nil {
		return 0, c.guard.err
	}
	switch background := len(p) == 1; {
	case background && c.hangups != nil:
		return 0, nil
	case !background:
		c.applyDeadline()
	}
	n, err := c.Conn.Read(p)
	switch {
	case err == nil:
	case !errors.Is(err, os.ErrDeadlineExceeded):
		c.departure.Happen()
	case c.leftover.Load() > 0:
		c.cut.Store(true)
	case c.timedOut != nil && c.hangups != nil && c.patience.Load() == 0 && c.deadline.Load() > 0: // neither a body nor called off
		c.timedOut(c.is(http.StateIdle))
		c.timedOut, c.late = nil, true
	}
	if n == 0 {
		return n, err
	}
	c.heard.Store(true)
	good, refused := c.guard.pass(p[:n])
	if good == 0 && refused != nil {
		return 0, refused
	}
	return good, err
}

// Write writes to the network. The answers that net/http has for what is no request get the form of all others; the one for half a
// line, which it takes for a whole one when time is up, is left out.
func (c *conn) Write(p []byte) (int, error) {
	answer := refusal(p, c.guard.err)
	switch {
	case answer == nil:
		return c.Conn.Write(p)
	case c.late:
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), c.refuse(answer)
}

// SetReadDeadline notes the deadline until the connection is read: net/http moves it four times a request, mostly between reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline.Store(sinceBegan(t))
	if c.hangups == nil { // a background read may be waiting
		return c.Conn.SetReadDeadline(t)
	}
	return nil
}

// leftoverPatience is how long net/http may read a body that nobody wants, which it does before it sends an answer, so that the connection
// can be used again: long enough for what is on its way, and no client gets an answer late because it has stalled.
const leftoverPatience = 250 * time.Millisecond

// due is the deadline of a read that begins now; 0 for none, below 0 if reads are called off.
func (c *conn) due(now int64) int64 {
	called, patience := c.deadline.Load(), c.patience.Load()
	switch {
	case called < 0:
		return called
	case called == 0 && c.is(http.StateActive) && !c.wanted.Load():
		c.leftover.CompareAndSwap(0, now+int64(leftoverPatience))
		return c.leftover.Load()
	case patience > 0:
		return now + patience
	}
	return called
}

// applyDeadline gives the socket the deadline that holds, unless it has one that is as good.
func (c *conn) applyDeadline() {
	now := sinceBegan(time.Now())
	want := c.due(now)
	if c.hangups == nil && want == c.deadline.Load() || c.hangups != nil && asGood(c.set, want, now) {
		return
	}
	c.set = want
	if want == 0 {
		_ = c.Conn.SetReadDeadline(time.Time{})
		return
	}
	_ = c.Conn.SetReadDeadline(began.Add(time.Duration(want)))
}

// began is where deadlines are counted from.
var began = time.Now()

// sinceBegan is a deadline in nanoseconds; 0 for none, below 0 for one that calls a read off.
func sinceBegan(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(began))
}

// asGood tells whether a deadline will do for another: it is not later, and earlier by less than a fiftieth of what is left.
func asGood(has, want, now int64) bool {
	if has <= 0 || want <= 0 {
		return has == want
	}
	return has <= want && want-has <= (want-now)/50
}

// stopReading makes a read that waits, and every later one, fail at once.
func (c *conn) stopReading() {
	past := time.Unix(1, 0)
	c.patience.Store(0)
	_ = c.SetReadDeadline(past)
	_ = c.Conn.SetReadDeadline(past)
}

// Close is the server's: whoever still waits for the client waits in vain.
func (c *conn) Close() error {
	if c.hangups != nil {
		c.hangups.remove(c)
	}
	c.departure.Happen()
	if c.cut.Swap(false) {
		c.linger()
	}
	return c.Conn.Close()
}

// How long, and for how much, a client that was answered while it was sending is listened to.
const (
	lingerFor = 500 * time.Millisecond
	lingerOn  = 256 << 10
)

// linger lets the client read the answer: to one that still sends, a closed connection is an error at once.
func (c *conn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(lingerFor))
	_, _ = io.CopyN(io.Discard, c.Conn, lingerOn)
}

// endPatience takes the time-out of body reads away.
func (c *conn) endPatience() {
	if c.patience.Swap(0) > 0 && c.hangups == nil {
		_ = c.Conn.SetReadDeadline(time.Time{})
	}
}

// is tells what net/http does with the connection.
func (c *conn) is(s http.ConnState) bool { return http.ConnState(c.state.Load()) == s }

// note keeps in mind what net/http does with the connection now.
func (c *conn) note(s http.ConnState) (was http.ConnState) {
	c.leftover.Store(0)
	return http.ConnState(c.state.Swap(int32(s)))
}

type connKey struct{}

// withConn remembers the connection for its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own := ownConn(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// ownConn is the connection of this package that net/http was given; nil if it is none.
func ownConn(c net.Conn) *conn {
	switch c := c.(type) {
	case *conn:
		return c
	case secureConn:
		return c.conn
	}
	return nil
}
