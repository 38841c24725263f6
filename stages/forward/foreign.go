package forward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// foreign is the answer that somebody else's round tripper gave.
type foreign struct {
	body    io.ReadCloser
	resp    *http.Response
	cancel  context.CancelFunc
	standIn *conn // what the call holds
	gate    gate
	reused  atomic.Bool
	heard   atomic.Bool

	waits    sync.Mutex // held while the client is told of an informational head
	returned bool       // the round trip: no more of them

	buf    *[largeSize]byte
	tickAt time.Time
	read   chan readResult // of the read that goes on, if reading is; made with the first tick
	busy   bool            // a read goes on
}

type readResult struct {
	n   int
	err error
}

// adopt makes the call's answer of a response.
func (a *answer) adopt(c *call, f *foreign, resp *http.Response) {
	f.body, f.resp = resp.Body, resp
	f.buf = largeBuffers.Get().(*[largeSize]byte)
	fields, trailers := fieldsOf(a.Fields[:0], resp.Header), a.trailers[:0]
	*a = answer{call: c, foreign: f, Reused: f.reused.Load(), trailers: trailers}
	a.Status, a.Fields, a.ContentLength = resp.StatusCode, fields, resp.ContentLength
	a.Connection = strings.Join(resp.Header["Connection"], ",")
}

// next reads the body. While ticks are asked for it reads on a goroutine, because a response body knows no deadline.
func (f *foreign) next(a *answer) ([]byte, error) {
	if a.end != nil {
		return nil, a.end
	}
	for {
		n, err := f.readBody()
		if errors.Is(err, errTick) {
			return nil, errTick
		}
		if err != nil && a.end == nil {
			a.end = f.broken(a, err)
		}
		if n > 0 {
			return f.buf[:n], nil
		}
		if a.end != nil {
			return nil, a.end
		}
	}
}

func (f *foreign) readBody() (int, error) {
	if !f.busy && f.tickAt.IsZero() {
		return f.body.Read(f.buf[:])
	}
	if f.read == nil {
		f.read = make(chan readResult, 1)
	}
	if !f.busy {
		f.busy = true
		go func() {
			n, err := f.body.Read(f.buf[:])
			f.read <- readResult{n, err}
		}()
	}
	var tick <-chan time.Time
	if !f.tickAt.IsZero() {
		timer := time.NewTimer(time.Until(f.tickAt))
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case r := <-f.read:
		f.busy = false
		return r.n, r.err
	case <-tick:
		return 0, errTick
	}
}

// broken is the end of the body that err stands for.
func (f *foreign) broken(a *answer, err error) error {
	if errors.Is(err, io.EOF) {
		a.trailers = fieldsOf(a.trailers, f.resp.Trailer)
		return io.EOF
	}
	if source := f.gate.failed(); source != nil {
		return a.call.failed(errUpload, true, source)
	}
	failed := a.call.failed(errBody, true, err)
	if failed.Kind == errBody && (errors.Is(err, context.DeadlineExceeded) || passed(a.call.Deadline)) {
		failed.Kind = errTimeout // whatever broke first when the context ended
	}
	return failed
}

// close ends the call: the round tripper decides what becomes of the connection.
func (f *foreign) close(a *answer) {
	if a.end != io.EOF { //nolint:errorlint // broken gives out this very value
		f.cancel()
	}
	_ = f.body.Close()
	if f.busy {
		<-f.read
	}
	if a.end == nil {
		a.end = http.ErrBodyReadAfterClose
	}
	f.gate.shut(a.call.Upload)
	f.cancel()
	a.call.detach(f.standIn)
	largeBuffers.Put(f.buf)
}
