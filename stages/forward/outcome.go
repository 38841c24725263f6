package forward

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// The kinds of failure of a call; errors.Is tells them apart. A failure wraps its kind and its cause.
var (
	errRequest     = errors.New("the request cannot be built")     // nothing was sent: a field, the method or the path is malformed
	errDial        = errors.New("cannot connect")                  // no connection, hence nothing was sent
	errTimeout     = errors.New("timed out")                       // connecting, writing, waiting for the head or reading the body
	errSend        = errors.New("no answer")                       // the connection failed, or what came is no HTTP, before the head was whole
	errBody        = errors.New("the answer's body broke off")     // after the head: cut, or malformed
	errUpload      = errors.New("the request body cannot be read") // call.Upload failed, or its length is not the declared one
	errInterrupted = errors.New("interrupted")                     // call.Interrupt
)

// errStray is the cause of an errSend whose connection ended before any byte had come.
var errStray = errors.New("the connection was closed before an answer")

// errTick is what next returns when the time of setReadDeadline has come and the call's own deadline has not. It is no
// failure: next may be called again. It is an errTimeout and an os.ErrDeadlineExceeded as well.
var errTick error = quiet{}

type quiet struct{}

func (quiet) Error() string        { return "nothing was read in the given time" }
func (quiet) Is(target error) bool { return target == errTimeout || target == os.ErrDeadlineExceeded }

// failure is how a call ended that got no whole answer.
type failure struct {
	Kind     error // one of the above
	Received bool  // whether any byte of an answer had come
	Cause    error
}

// Error is the kind and the cause.
func (f *failure) Error() string { return fmt.Sprintf("%v: %v", f.Kind, f.Cause) }

// Unwrap is both of them, for errors.Is.
func (f *failure) Unwrap() []error { return []error{f.Kind, f.Cause} }

// Timeout makes a failure tell what a [net.Error] tells.
func (f *failure) Timeout() bool { return f.Kind == errTimeout } //nolint:errorlint // always one of the above itself

// Temporary is part of [net.Error]; nothing reads it any more.
func (f *failure) Temporary() bool { return false }

var _ net.Error = (*failure)(nil)

// isTimeout tells whether err says that a deadline, ours or the kernel's, has passed.
func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
