package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// lingering is how long close waits for a writer whose answer is whole: it may be just about to tell that it is done.
const lingering = 50 * time.Millisecond

// pieceSize is how much of an upload is read at once. framing is the room for a chunk's size line in front of a piece.
const (
	pieceSize = 32 << 10
	framing   = 16
)

var uploadBuffers = sync.Pool{New: func() any { return new([framing + pieceSize + 2 + 5]byte) }}

// writer sends a body while the answer is waited for: a worker may answer before it has read everything, and one that does
// not read at all must not keep its answer from being read.
type writer struct {
	done   chan struct{}
	sent   bool  // after done: all of the body was sent
	source error // after done: what was wrong with the upload
}

// startWriter sends head and body to the connection on a goroutine.
func (c *call) startWriter(to net.Conn) {
	w := &writer{done: make(chan struct{})}
	c.writer = w
	if c.Upload == nil {
		go func() {
			defer close(w.done)
			w.sent = c.write(to) == nil
		}()
		return
	}
	head, source, length := c.vector[0], c.Upload, c.UploadLength
	go func() {
		w.sent, w.source = sendUpload(to, head, source, length)
		close(w.done) // before the connection is: who finds it closed finds the reason
		if w.source != nil {
			_ = to.Close() // the request can never be whole: whoever waits for its answer must learn of it
		}
	}()
}

// stopWriter ends the writer, whose connection is closed, and tells what was wrong with the upload if that came first. After
// it neither body nor upload are read any more, but for a loose call.
func (c *call) stopWriter() error {
	w := c.writer
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return w.source
	default:
	}
	if closer, ok := c.Upload.(io.Closer); ok {
		_ = closer.Close()
	}
	if !c.loose {
		<-w.done
	}
	return nil
}

// endUpload makes sure that nobody reads from the client any more; the answer to the request is whole. It is asked before the
// client is written to, for a client is not read and written at once.
func (a *answer) endUpload() {
	c := a.call
	switch {
	case c.Upload == nil:
	case a.foreign != nil:
		a.foreign.gate.shut(c.Upload)
	case !c.wrote():
		_ = c.stopWriter()
	}
}

// uploaded waits until nobody reads from the client any more: before an answer is relayed as it comes. The error is a *failure.
func (a *answer) uploaded() error {
	c := a.call
	if c.Upload == nil {
		return nil
	}
	over := c.over(a.foreign)
	if !c.Deadline.IsZero() {
		timer := time.NewTimer(time.Until(c.Deadline))
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
			return c.failed(errTimeout, true, errLate)
		}
	}
	<-over
	if source := a.uploadFailed(); source != nil {
		return c.failed(errUpload, true, source)
	}
	return nil
}

// over is closed when the upload is.
func (c *call) over(f *foreign) <-chan struct{} {
	if f != nil {
		return f.gate.over
	}
	return c.writer.done
}

// wrote tells whether the whole request has been sent. It is asked when the answer is whole, so the writer is either about to
// finish or was not waited for.
func (c *call) wrote() bool {
	w := c.writer
	if w == nil {
		return true
	}
	select {
	case <-w.done:
		return w.sent
	default:
	}
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.sent
	case <-timer.C:
		return false
	}
}

// sendUpload sends head and source. err is the source's fault; what is wrong with the connection is found by who reads from it.
func sendUpload(to net.Conn, head []byte, source io.Reader, length int64) (sent bool, err error) {
	if _, err := to.Write(head); err != nil {
		return false, nil //nolint:nilerr // see above
	}
	buf := uploadBuffers.Get().(*[framing + pieceSize + 2 + 5]byte)
	defer uploadBuffers.Put(buf)
	if length > 0 {
		return uploadLength(to, buf[:pieceSize], source, length)
	}
	for {
		n, err := source.Read(buf[framing : framing+pieceSize])
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if piece := chunked(buf[:], n, err != nil); len(piece) > 0 {
			if _, err := to.Write(piece); err != nil {
				return false, nil //nolint:nilerr // see above
			}
		}
		if err != nil {
			return true, nil
		}
	}
}

// chunked makes a chunk of the n bytes that stand behind the room for the framing, and puts the last chunk behind it.
func chunked(buf []byte, n int, last bool) []byte {
	start, end := framing, framing+n
	if n > 0 {
		var digits [framing]byte
		line := append(strconv.AppendInt(digits[:0], int64(n), 16), '\r', '\n')
		start -= len(line)
		copy(buf[start:], line)
		end += copy(buf[end:], "\r\n")
	}
	if last {
		end += copy(buf[end:], "0\r\n\r\n")
	}
	return buf[start:end]
}

func uploadLength(to net.Conn, buf []byte, source io.Reader, length int64) (sent bool, err error) {
	for left := length; ; {
		n, err := source.Read(buf)
		if int64(n) > left {
			return false, fmt.Errorf("longer than the declared %d bytes", length)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return false, nil //nolint:nilerr // see sendUpload
			}
			left -= int64(n)
		}
		switch {
		case left == 0:
			return true, nil
		case errors.Is(err, io.EOF):
			return false, io.ErrUnexpectedEOF
		case err != nil:
			return false, err
		}
	}
}
