package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// client is a [pipeline.Client] over net/http. It is used again.
type client struct {
	w       http.ResponseWriter
	r       *http.Request
	conn    *conn // nil if the server was not made by this package, or speaks HTTP/2
	allow   string
	aborted bool
	reading bool // the body has begun to be read

	// For requests without a connection of this package:
	patience time.Duration // how long one Read may wait; 0: for ever
	deadline atomic.Int64  // of the Read that waits, in nanoseconds since began; 0: none
	stopped  atomic.Bool   // reading has been called off

	ownsCORS bool // the gateway says which origins may read the answer; what a worker says of that is left out

	mu    sync.Mutex
	stops map[pipeline.GoneWatcher]func() bool // for requests without a connection of their own
}

var _ pipeline.Client = (*client)(nil)

var clients = sync.Pool{New: func() any { return new(client) }}

func newClient(w http.ResponseWriter, r *http.Request) *client {
	c := clients.Get().(*client)
	c.w, c.r = w, r
	if r.ProtoMajor == 1 {
		c.conn, _ = r.Context().Value(connKey{}).(*conn)
	}
	return c
}

// release ends the use of the client. If the response was aborted it panics, which is how net/http is told to cut it.
func (c *client) release() {
	aborted := c.aborted
	if c.conn != nil {
		c.conn.endPatience()
	}
	c.w, c.r, c.conn, c.allow, c.aborted, c.ownsCORS, c.stops, c.patience = nil, nil, nil, "", false, false, nil, 0
	c.reading = false
	c.deadline.Store(0)
	c.stopped.Store(false)
	clients.Put(c)
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

func (c *client) Method() string            { return c.r.Method }
func (c *client) Path() string              { return c.r.URL.EscapedPath() }
func (c *client) Query() string             { return c.r.URL.RawQuery }
func (c *client) Protocol() string          { return c.r.Proto }
func (c *client) Peer() string              { return c.r.RemoteAddr }
func (c *client) TLS() *tls.ConnectionState { return c.r.TLS }
func (c *client) ContentLength() int64      { return c.r.ContentLength }

func (c *client) Header(name string) string {
	if values := c.r.Header[name]; len(values) > 0 {
		return values[0]
	}
	if name == "Host" { // net/http keeps it apart
		return c.r.Host
	}
	return ""
}

func (c *client) Headers(yield func(name, value string) bool) {
	for name, values := range c.r.Header {
		for _, v := range values {
			if !yield(name, v) {
				return
			}
		}
	}
}

// Read ends reading when it fails. Else net/http, which reads what is left of a body before it sends an answer, would wait for a
// client that has stalled, and the client for its 408.
func (c *client) Read(p []byte) (int, error) {
	c.reading = true
	if c.patience > 0 {
		c.setReadDeadline(time.Now().Add(c.patience))
	}
	if c.conn != nil {
		c.conn.wanted.Store(true)
		defer c.conn.wanted.Store(false)
	}
	n, err := c.r.Body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // the body's own
		c.endPatience() // from here on net/http reads, to notice a client that leaves
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.StopReading()
	default:
		c.failReads()
	}
	return n, err
}

// SetReadTimeout takes effect where reads go to the network, so that a body that came with the head costs nothing. A connection
// that this package has not accepted has a deadline set for each Read.
func (c *client) SetReadTimeout(d time.Duration) {
	switch {
	case c.conn == nil && d > 0:
		c.patience = d
	case c.conn == nil:
		c.endPatience()
	case d > 0:
		c.conn.patience.Store(int64(d))
	default:
		c.conn.endPatience()
	}
}

// endPatience takes the time-out of reads away, where this package has not accepted the connection.
func (c *client) endPatience() {
	if c.patience > 0 {
		c.patience = 0
		c.setReadDeadline(time.Time{})
	}
}

// setReadDeadline sets a deadline that comes no later than a StopReading at the same time: then every read fails.
func (c *client) setReadDeadline(t time.Time) {
	c.deadline.Store(sinceBegan(t))
	_ = http.NewResponseController(c.w).SetReadDeadline(t)
	if c.stopped.Load() {
		c.failReads()
	}
}

// StopReading may come from any goroutine.
func (c *client) StopReading() {
	c.stopped.Store(true)
	c.failReads()
}

// failReads uses a time in the past, which wakes a read that waits.
func (c *client) failReads() {
	if c.conn != nil {
		c.conn.stopReading()
		return
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0))
}

func (c *client) AddHeader(name, value string) { c.w.Header().Add(name, value) }
func (c *client) SetHeader(name, value string) {
	c.w.Header()[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
}

func (c *client) Interim(status int, fields []pipeline.Field) error {
	h := c.w.Header()
	for _, f := range fields {
		h.Add(f.Name, f.Value)
	}
	c.w.WriteHeader(status)
	for _, f := range fields {
		h.Del(f.Name)
	}
	return nil
}

// automatic is the body size up to which net/http finds out Content-Length by itself, at no cost.
const automatic = 2048

func (c *client) WriteHead(status int, contentLength int64, fields []pipeline.Field) error {
	h := c.w.Header()
	values := make([]string, len(fields)) // one for all: each name gets its part
	for i, f := range fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		if c.ownsCORS && strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		values[i] = f.Value
		if _, there := h[name]; !there {
			h[name] = values[i : i+1 : i+1]
		} else if name == "Vary" || given(fields[:i], name) { // both sides of the gateway may have a reason to vary
			h[name] = append(h[name], f.Value)
		}
	}
	if contentLength > automatic || contentLength >= 0 && c.r.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.FormatInt(contentLength, 10)}
	}
	c.w.WriteHeader(status)
	return nil
}

// given tells a name that is repeated among the given fields from one that was added before and wins over them.
func given(before []pipeline.Field, name string) bool {
	for _, f := range before {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

func (c *client) Write(p []byte) (int, error) { return c.w.Write(p) }

// Flush is no failure where somebody's ResponseWriter cannot: it sends what it has when it pleases.
func (c *client) Flush() error {
	if f, ok := c.w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	if err := http.NewResponseController(c.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (c *client) SetWriteDeadline(t time.Time) error {
	if c.conn != nil {
		return c.conn.SetWriteDeadline(t)
	}
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// Trailers flushes first: net/http sends trailers only behind a body whose length it has not declared.
func (c *client) Trailers(fields []pipeline.Field) {
	_ = c.Flush()
	h := c.w.Header()
	for _, f := range fields {
		h.Add(http.TrailerPrefix+f.Name, f.Value)
	}
}

func (c *client) Abort() { c.aborted = true }

func (c *client) Gone() bool {
	if c.conn != nil {
		return c.conn.departure.Gone()
	}
	return c.r.Context().Err() != nil && !c.readFailed()
}

// readFailed tells whether the request's context may have ended for another reason than that the client has left: over HTTP/1
// net/http also ends it when a read fails, be it that it has waited too long or was called off.
func (c *client) readFailed() bool {
	if c.r.ProtoMajor != 1 {
		return false
	}
	d := c.deadline.Load()
	return c.stopped.Load() || d != 0 && sinceBegan(time.Now()) >= d
}

func (c *client) Watch(w pipeline.GoneWatcher) {
	if c.conn != nil {
		c.takeIn()
		c.conn.departure.Watch(w)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops == nil {
		c.stops = map[pipeline.GoneWatcher]func() bool{}
	}
	c.stops[w] = watchContext(c.r.Context(), func() {
		if !c.readFailed() {
			w.ClientGone()
		}
	})
}

// What the system takes in of a body that nobody reads.
const (
	takenInAnyway = 64 << 10
	takenInAtMost = 1 << 20
)

// takeIn lets the system take in the rest of a body that nobody reads yet, within limits: that the client has left comes behind the last
// byte that it has sent. The memory is the system's, and used only by what has come.
func (c *client) takeIn() {
	if c.reading || c.r.ContentLength >= 0 && c.r.ContentLength <= takenInAnyway {
		return
	}
	n := int64(takenInAtMost)
	if c.r.ContentLength > 0 {
		n = min(n, c.r.ContentLength+takenInAnyway)
	}
	if tcp, ok := c.conn.Conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = tcp.SetReadBuffer(int(n))
	}
}

func (c *client) Unwatch(w pipeline.GoneWatcher) {
	if c.conn != nil {
		c.conn.departure.Unwatch(w)
		return
	}
	c.mu.Lock()
	stop := c.stops[w]
	delete(c.stops, w)
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// watchContext calls f once ctx ends. The returned function waits for a call that is under way.
func watchContext(ctx context.Context, f func()) func() bool {
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		f()
	})
	return func() bool {
		if stop() {
			return true
		}
		<-told
		return false
	}
}
