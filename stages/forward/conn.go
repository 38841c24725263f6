package forward

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// smallSize is the buffer that every connection has: a head and a short answer, or some events of a stream. largeSize is
// the one that it borrows while much is coming in.
const (
	smallSize = 4 << 10
	largeSize = 32 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeSize]byte) }}

// conn is a connection to a worker. One call at a time has it, or a stack of idle ones.
type conn struct {
	net       net.Conn
	cancel    context.CancelFunc // of a connection that is being made: net is not set, and never will be
	raw       syscall.RawConn    // nil if the platform cannot look into a socket without reading it
	transport *Transport
	stack     *stack
	idleSince time.Duration // on the clock of now
	deadline  time.Time     // as set on net
	ticking   bool          // the read deadline is another
	reused    bool          // has served a call before

	buf   []byte           // small, or large, or a longer one of its own for a long head
	large *[largeSize]byte // borrowed
	r, w  int              // buf[r:w] was read and is not used yet
	full  bool             // the last read filled the buffer, so there may be more to read
	heard bool             // a byte has come since the call got the connection

	peek  peeker
	small [smallSize]byte
}

// interrupt ends the connection, whoever is reading from it or writing to it.
func (c *conn) interrupt() {
	if c.cancel != nil {
		c.cancel()
		return
	}
	_ = c.net.Close()
}

// close ends a connection for good. Only who has it calls it, once.
func (c *conn) close() {
	_ = c.net.Close()
	c.shrink()
	c.transport.open.Add(-1)
}

// setDeadline sets the deadline of all that is read and written.
func (c *conn) setDeadline(t time.Time) error {
	if t.Equal(c.deadline) && !c.ticking {
		return nil
	}
	c.deadline, c.ticking = t, false
	return c.net.SetDeadline(t)
}

// fill reads once from the network, behind what is buffered. want is how many bytes are to come, -1 if it is not known.
// What was handed out of the buffer before is no longer valid.
func (c *conn) fill(want int64) error {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
		c.fit(want)
	case c.w == len(c.buf):
		c.makeRoom()
	}
	n, err := c.net.Read(c.buf[c.w:])
	c.w += n
	c.full = c.w == len(c.buf)
	if n > 0 {
		c.heard = true
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// fit gives the connection, whose buffer is empty, one of the right size: large while much is known to come or the last read
// has filled what there was, else small. So a stream that has become quiet holds 4 KiB however fast it once was.
func (c *conn) fit(want int64) {
	switch large := want > smallSize || want < 0 && c.full; {
	case large && c.large == nil:
		c.large = largeBuffers.Get().(*[largeSize]byte)
		c.buf = c.large[:]
	case !large && len(c.buf) != smallSize:
		c.shrink()
	}
}

// makeRoom makes a full buffer take more. Whoever waits for an end that does not come must set a limit to that.
func (c *conn) makeRoom() {
	old := c.buf[c.r:c.w]
	switch {
	case c.r > 0:
	case c.large == nil && len(c.buf) == smallSize:
		c.large = largeBuffers.Get().(*[largeSize]byte)
		c.buf = c.large[:]
	default:
		c.buf = make([]byte, 2*len(c.buf))
	}
	c.r, c.w = 0, copy(c.buf, old)
}

// shrink goes back to the small buffer. What was buffered is lost.
func (c *conn) shrink() {
	if c.large != nil {
		largeBuffers.Put(c.large)
		c.large = nil
	}
	c.buf, c.r, c.w, c.full = c.small[:], 0, 0, false
}

// readHead reads up to the end of a head. The string is the only thing that a request allocates.
func (c *conn) readHead() (string, error) {
	scanned := 0
	for {
		b := c.buf[c.r:c.w]
		if !startsLikeHTTP(b) {
			return "", errNotHTTP
		}
		end := headEnd(b, &scanned)
		if end > maxHead || end < 0 && len(b) > maxHead {
			return "", errHeadTooLong
		}
		if end >= 0 {
			c.r += end
			return string(b[:end]), nil
		}
		if err := c.fill(-1); err != nil {
			return "", err
		}
	}
}
