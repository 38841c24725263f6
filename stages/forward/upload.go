package forward

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/smg-go/smg/pipeline"
)

// upload reads a request body that goes to the worker as it comes: first what was read ahead, then the client.
type upload struct {
	peeked  []byte
	client  pipeline.Client
	left    int64
	limited bool

	waiting atomic.Bool // for the client's next bytes
	closed  atomic.Bool
	starved atomic.Bool // it was waiting when it was closed
}

// uploadError is a failure of the client's side of an upload, with the answer for it. No worker is to blame.
type uploadError struct{ response *pipeline.Error }

func (e *uploadError) Error() string { return e.response.Error() }

func (u *upload) Read(p []byte) (n int, err error) {
	if len(u.peeked) > 0 {
		n = copy(p, u.peeked)
		u.peeked = u.peeked[n:]
	} else if n, err = u.readClient(p); err != nil && !errors.Is(err, io.EOF) {
		if u.closed.Load() {
			return n, net.ErrClosed // nobody's fault
		}
		return n, &uploadError{UploadFailure(err)}
	}
	if u.left -= int64(n); u.limited && u.left < 0 {
		return 0, &uploadError{UploadTooLarge()}
	}
	return n, err
}

func (u *upload) readClient(p []byte) (int, error) {
	u.waiting.Store(true)
	defer u.waiting.Store(false)
	return u.client.Read(p)
}

// Close makes a Read that waits for the client return. It may come more than once.
func (u *upload) Close() error {
	if u.waiting.Load() {
		u.starved.Store(true)
	}
	u.closed.Store(true)
	u.client.StopReading()
	return nil
}

// starves tells whether the upload waits for the client, or did when it was closed.
func (u *upload) starves() bool { return u.waiting.Load() || u.starved.Load() }

// UploadTooLarge is the answer to a client whose request body is larger than the gateway accepts.
func UploadTooLarge() *pipeline.Error {
	return &pipeline.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_body_too_large",
		Message: "The request body is larger than the gateway accepts", Terminal: true,
	}
}

// UploadFailure is the answer to a client whose request body could not be read: 408 if it stalled, else 400.
func UploadFailure(err error) *pipeline.Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &pipeline.Error{
			Status: http.StatusRequestTimeout, Code: "request_body_stalled",
			Message: "The request body stopped arriving", Terminal: true, Cause: err,
		}
	}
	return &pipeline.Error{
		Status: http.StatusBadRequest, Code: "request_body_aborted",
		Message: "The request body broke off before its end", Terminal: true, Cause: err,
	}
}
