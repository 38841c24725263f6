package forward

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/smg-go/smg/pipeline"
)

type bodyFraming uint8

const (
	noBody bodyFraming = iota
	byLength
	byChunks
	byClose
)

// answer is what a worker answers: its head, and its body piece by piece. It is part of its call, and like it of one
// goroutine at a time.
type answer struct {
	head
	Reused bool // the connection had served a call before

	call    *call
	conn    *conn
	foreign *foreign // instead of conn, if a round tripper of somebody else carries the call

	framing  bodyFraming
	left     int64 // byLength: bytes that were not handed out
	chunks   chunks
	ready    int   // bytes at the front of the connection's buffer that belong to the body
	end      error // why there is no more: io.EOF, or what went wrong
	trailers []pipeline.Field
	keep     bool // the connection may serve another call
	closed   bool
}

// next is the next piece of the body, never an empty one: a part of the connection's buffer, valid until the following next.
// It waits only if nothing is buffered. The error is io.EOF at the proper end of the body, [errTick] if setReadDeadline's time
// has come, else a *failure of the kind errBody, errTimeout, errUpload or errInterrupted.
func (a *answer) next() ([]byte, error) {
	if a.foreign != nil {
		return a.foreign.next(a)
	}
	for !a.buffered() {
		if err := a.conn.fill(a.coming()); err != nil {
			if err = a.broken(err); err != nil {
				return nil, err
			}
		}
	}
	if a.ready == 0 {
		return nil, a.end
	}
	c := a.conn
	piece := c.buf[c.r : c.r+a.ready]
	c.r += a.ready
	a.ready = 0
	return piece, nil
}

// buffered tells whether next would return without waiting for the network.
func (a *answer) buffered() bool {
	if a.ready > 0 || a.end != nil {
		return true
	}
	if a.foreign != nil {
		return false
	}
	c := a.conn
	switch a.framing {
	case noBody:
		a.end = io.EOF
	case byLength:
		a.ready = int(min(int64(c.w-c.r), a.left))
		if a.left -= int64(a.ready); a.left == 0 && a.ready == 0 {
			a.end = io.EOF
		}
	case byChunks:
		a.decode()
	case byClose:
		a.ready = c.w - c.r
	}
	return a.ready > 0 || a.end != nil
}

// decode takes the chunked coding off what is buffered, up to the end of the first piece.
func (a *answer) decode() {
	c := a.conn
	skip, data, err := a.chunks.step(c.buf[c.r:c.w])
	c.r += skip
	a.ready = data
	if err == nil && a.chunks.state == chunksDone {
		err = io.EOF
		if a.chunks.trailers != "" {
			var malformed error
			if a.trailers, malformed = parseTrailers(a.trailers, a.chunks.trailers); malformed != nil {
				err = malformed
			}
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		a.end = io.EOF
	default:
		a.end = a.call.failed(errBody, true, err)
	}
}

// coming is how many bytes the network still has for this body, -1 if it is not known.
func (a *answer) coming() int64 {
	switch a.framing {
	case byLength:
		return a.left
	case byChunks:
		if a.chunks.left > smallSize {
			return a.chunks.left
		}
	}
	return -1
}

// broken is what next returns when the connection gave err instead of bytes; nil if that is the proper end.
func (a *answer) broken(err error) error {
	c := a.conn
	if isTimeout(err) && c.ticking && !a.call.isInterrupted() && !passed(a.call.Deadline) {
		return errTick
	}
	if errors.Is(err, io.EOF) {
		if a.framing == byClose && !a.call.isInterrupted() {
			a.end = io.EOF
			return nil
		}
		err = io.ErrUnexpectedEOF
	}
	if source := a.uploadFailed(); source != nil {
		a.end = a.call.failed(errUpload, true, source)
		return a.end
	}
	a.end = a.call.failed(errBody, true, err)
	return a.end
}

// uploadFailed is what was wrong with the upload, if that is why the connection is closed.
func (a *answer) uploadFailed() error {
	if a.foreign != nil {
		return a.foreign.gate.failed()
	}
	w := a.call.writer
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return w.source
	default:
		return nil
	}
}

// passed tells whether a deadline, zero for none, has come.
func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// setReadDeadline makes a next that waits return [errTick] at t, zero for never. The call's own deadline stays in force.
func (a *answer) setReadDeadline(t time.Time) {
	if a.foreign != nil {
		a.foreign.tickAt = t
		return
	}
	if a.conn == nil {
		return
	}
	if d := a.call.Deadline; t.IsZero() || !d.IsZero() && t.After(d) {
		t = d
	}
	a.conn.ticking = true
	_ = a.conn.net.SetReadDeadline(t) // fails only on a closed connection, and then so does next
}

// Trailers are the fields that came behind the body, without those that frame a message. They are there once next has
// returned io.EOF.
func (a *answer) Trailers() []pipeline.Field { return a.trailers }

// close ends the call. The connection is kept for another one if the answer was read to its end, the request was sent to its
// end, and neither side nor Interrupt has closed it. Bytes behind the end are no answer to anything: that connection is closed.
func (a *answer) close() {
	if a.closed || a.call == nil {
		return
	}
	a.closed = true
	if a.foreign != nil {
		a.foreign.close(a)
		return
	}
	c := a.conn
	whole := a.keep && a.ended() && c.r == c.w && a.call.wrote()
	a.conn, a.ready = nil, 0
	if a.end == nil {
		a.end = net.ErrClosed // for a next that should not come
	}
	if a.call.detach(c) && whole {
		c.stack.put(c)
		return
	}
	c.close()
	_ = a.call.stopWriter()
}

// ended tells whether the body was read to its end, also if next was not asked for the io.EOF.
func (a *answer) ended() bool {
	return a.ready == 0 && a.buffered() && a.end == io.EOF //nolint:errorlint // next gives out this very value
}
