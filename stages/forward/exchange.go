package forward

import (
	"errors"
	"io"
)

// exchange sends the call on a connection and reads the head of the answer. On an error the connection is closed.
func (c *call) exchange(on *conn) *failure {
	on.heard, on.full = false, false
	a := &c.answer
	a.call, a.conn, a.Reused = c, on, on.reused
	a.closed, a.end, a.ready = false, nil, 0
	sent, err := c.sendOn(on)
	if err == nil {
		err = a.readHead(on)
	}
	if err == nil {
		a.frame(c.Method)
		a.keep = sent && !c.hangUp && a.persistent() && a.framing != byClose
		return nil
	}
	return c.abandon(on, err)
}

// sendOn writes the request, or starts to. If writing fails it may still be worth reading: a worker that refuses a request
// answers and closes without reading all of it. Then sent is false.
func (c *call) sendOn(on *conn) (sent bool, err error) {
	if err := on.setDeadline(c.Deadline); err != nil {
		return false, err
	}
	if c.Upload != nil || len(c.Body) > direct {
		c.startWriter(on.net)
		return true, nil
	}
	err = c.write(on.net)
	if err == nil {
		return true, nil
	}
	if isTimeout(err) || c.isInterrupted() || on.fill(-1) != nil {
		return false, err
	}
	return false, nil
}

// readHead reads heads up to the one that is no informational one.
func (a *answer) readHead(on *conn) error {
	for range maxInterim {
		s, err := on.readHead()
		if err != nil {
			return err
		}
		if err := a.parse(s); err != nil {
			return err
		}
		switch {
		case a.Status == 101:
			return errSwitching
		case a.Status >= 200:
			return nil
		case a.Status != 100 && a.call.Interim != nil:
			a.call.Interim(a.Status, a.Fields)
		}
	}
	return errManyInterims
}

// frame tells how the body ends (RFC 9112, 6.3).
func (a *answer) frame(method string) {
	a.left, a.chunks, a.trailers = 0, chunks{}, a.trailers[:0]
	switch {
	case a.bodiless(method):
		a.framing = noBody
	case a.chunked:
		a.framing = byChunks
	case a.ContentLength >= 0:
		a.framing, a.left = byLength, a.ContentLength
	default:
		a.framing = byClose
	}
}

// abandon closes a connection on which a call has failed.
func (c *call) abandon(on *conn, err error) *failure {
	kind := errSend
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
		if !on.heard {
			err = errStray
		}
	}
	heard := on.heard
	on.close()
	if source := c.stopWriter(); source != nil {
		kind, err = errUpload, source
	}
	f := c.failed(kind, heard, err)
	c.detach(on)
	c.answer.conn, c.answer.closed, c.writer = nil, true, nil
	return f
}
