package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// waiting is how long a test waits for a condition before it gives up.
const waiting = 20 * time.Second

// caller is a client without HTTP. It records what it is sent, and holds the stage to the contract of [pipeline.Client]: one
// goroutine at a time, one head, nothing behind an abort, nothing behind a write deadline.
type caller struct {
	tb       testing.TB
	method   string
	path     string
	protocol string
	header   http.Header
	body     io.Reader                       // of a streamed upload
	onWrite  func(c *caller, p []byte) error // before p is recorded
	onRead   func()                          // a Read begins
	stopped  func()                          // StopReading
	users    atomic.Int32                    // goroutines that read or write
	interims []string                        // "103 Link: x"

	mu       sync.Mutex
	status   int
	length   int64 // declared
	fields   []pipeline.Field
	flushed  []string // what each flush sent; the head alone is ""
	pending  string   // what was written since
	trailers []pipeline.Field
	aborted  bool
	deadline time.Time

	pipeline.Departure
}

var _ pipeline.Client = (*caller)(nil)

func newCaller(tb testing.TB) *caller {
	return &caller{tb: tb, method: "POST", path: "/generate", protocol: "HTTP/1.1", header: http.Header{}}
}

func (c *caller) Method() string               { return c.method }
func (c *caller) Path() string                 { return c.path }
func (c *caller) Query() string                { return "not=forwarded" }
func (c *caller) Protocol() string             { return c.protocol }
func (c *caller) Peer() string                 { return "127.0.0.1:1" }
func (c *caller) TLS() *tls.ConnectionState    { return nil }
func (c *caller) Header(name string) string    { return c.header.Get(name) }
func (c *caller) ContentLength() int64         { return -1 }
func (c *caller) SetReadTimeout(time.Duration) {}
func (c *caller) AddHeader(string, string)     {}
func (c *caller) SetHeader(string, string)     {}

func (c *caller) Headers(yield func(name, value string) bool) {
	for name, values := range c.header {
		for _, v := range values {
			if !yield(name, v) {
				return
			}
		}
	}
}

// alone marks a use of the client; the returned function ends it.
func (c *caller) alone(what string) func() {
	if c.users.Add(1) > 1 {
		c.tb.Errorf("%s while the client is in use", what)
	}
	return func() { c.users.Add(-1) }
}

func (c *caller) Read(p []byte) (int, error) {
	defer c.alone("Read")()
	if c.onRead != nil {
		c.onRead()
	}
	return c.body.Read(p)
}

func (c *caller) StopReading() {
	if c.stopped != nil {
		c.stopped()
	}
}

func (c *caller) Interim(status int, fields []pipeline.Field) error {
	defer c.alone("Interim")()
	for _, f := range fields {
		c.interims = append(c.interims, http.StatusText(status)+" "+f.Name+": "+f.Value)
	}
	return nil
}

func (c *caller) WriteHead(status int, contentLength int64, fields []pipeline.Field) error {
	defer c.alone("WriteHead")()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 {
		c.tb.Error("two response heads")
	}
	c.status, c.length, c.fields = status, contentLength, slices.Clone(fields)
	return nil
}

func (c *caller) Write(p []byte) (int, error) {
	defer c.alone("Write")()
	if c.onWrite != nil {
		if err := c.onWrite(c, p); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.status == 0:
		c.tb.Error("a body before its head")
	case c.aborted:
		c.tb.Error("a body behind the abort")
	case passed(c.deadline):
		return 0, os.ErrDeadlineExceeded
	}
	c.pending += string(p)
	return len(p), nil
}

func (c *caller) Flush() error {
	defer c.alone("Flush")()
	c.mu.Lock()
	defer c.mu.Unlock()
	if passed(c.deadline) {
		return os.ErrDeadlineExceeded
	}
	c.flushed = append(c.flushed, c.pending)
	c.pending = ""
	return nil
}

func (c *caller) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *caller) Trailers(fields []pipeline.Field) { c.trailers = slices.Clone(fields) }

func (c *caller) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
}

// leave is what a client does that has had enough.
func (c *caller) leave() { c.Happen() }

// got is all of the response body that reached the client: what was not flushed is lost in an abort.
func (c *caller) got() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.flushed, "")
	if !c.aborted {
		all += c.pending
	}
	return all
}

// pieces are the flushes.
func (c *caller) pieces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.flushed)
}

// await waits until so much of the body has come.
func (c *caller) await(body string) {
	c.tb.Helper()
	require.Eventually(c.tb, func() bool { return c.got() == body }, waiting, time.Millisecond, "the client gets %q", body)
}

// all is every value of a response field.
func (c *caller) all(name string) []string {
	var values []string
	for _, f := range c.fields {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

func (c *caller) field(name string) string { return fieldValue(c.fields, name) }

var errHungUp = errors.New("the client has hung up")

// hangingUp is a client's end: whatever is written to it fails.
func hangingUp(*caller, []byte) error { return errHungUp }
