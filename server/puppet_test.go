package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// puppet is a worker whose answers a test plays by hand, byte by byte, at the moments of its choice. Probes it answers by itself.
type puppet struct {
	URL    string
	posts  atomic.Int64 // requests that were played
	probes atomic.Int64 // of /health

	mu   sync.Mutex
	tick chan struct{} // closed by the next probe
	open []net.Conn    // that answers were played on
	play func(*act)
	acts sync.WaitGroup
}

// act is one request to a puppet, and the connection to answer it on.
type act struct {
	*http.Request
	Sent string        // the request's body
	gone chan struct{} // closed when the peer has closed the connection
	conn net.Conn
}

// startPuppet serves a puppet until the test ends. play is called for each POST, in a goroutine of its own; when it returns the
// connection is closed, so it ends with an answer's last byte, or with <-a.gone.
func startPuppet(t testing.TB, play func(a *act)) *puppet {
	t.Helper()
	p := &puppet{play: play, tick: make(chan struct{})}
	srv := httptest.NewServer(p)
	p.URL = srv.URL
	t.Cleanup(func() {
		srv.Close()
		p.hangUp()
		p.acts.Wait()
	})
	return p
}

func (p *puppet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		p.acts.Add(1)
		defer p.acts.Done()
		p.perform(w, r)
	case r.URL.Path == "/health":
		p.mu.Lock()
		p.probes.Add(1)
		close(p.tick)
		p.tick = make(chan struct{})
		p.mu.Unlock()
	case r.URL.Path == "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m1","object":"model","owned_by":"vllm"}]}`)
	default:
		http.NotFound(w, r)
	}
}

func (p *puppet) perform(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body) // of a client that leaves in the middle, what came of it
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	a := &act{Request: r, Sent: string(sent), gone: make(chan struct{}), conn: conn}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(a.gone)
		_, _ = io.Copy(io.Discard, rw.Reader)
	})
	defer reading.Wait()
	defer conn.Close()
	p.mu.Lock()
	p.open = append(p.open, conn)
	p.mu.Unlock()
	p.posts.Add(1)
	p.play(a)
}

// hangUp ends what is still being played.
func (p *puppet) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close()
	}
}

// write sends bytes as they are, in one write. It waits as long as the peer does not take them.
func (a *act) write(s string) { _, _ = io.WriteString(a.conn, s) }

// head sends the head of an answer with a status line's rest ("200 OK") and header lines.
func (a *act) head(status string, lines ...string) {
	a.write("HTTP/1.1 " + status + "\r\n" + strings.Join(append(lines, "Connection: close"), "\r\n") + "\r\n\r\n")
}

// stream sends the head of an event stream that comes in chunks.
func (a *act) stream() {
	a.head("200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
}

func (a *act) chunk(s string) { a.write(chunked(s)) }

// chunked is a part of a body as one chunk.
func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// done ends a body that comes in chunks.
func (a *act) done() { a.write("0\r\n\r\n") }

// answer sends a whole JSON answer.
func (a *act) answer(body string) {
	a.head("200 OK", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))
	a.write(body)
}

// startPuppets runs a gateway in front of puppets, and waits until all of them serve. It adds no comments to event streams of its
// own accord: on a machine that stalls, they would be between bytes that a test compares.
func startPuppets(t testing.TB, configure func(*Config), puppets ...*puppet) *running {
	t.Helper()
	g := start(t, func(c *Config) {
		c.SSEKeepalive = 0
		for _, p := range puppets {
			c.WorkerURLs = append(c.WorkerURLs, p.URL)
		}
		if configure != nil {
			configure(c)
		}
	})
	g.serving(t, len(puppets))
	return g
}

// probed waits until a puppet has been probed so many times more: a clock whose ticks are the interval of health checks apart.
func (p *puppet) probed(t testing.TB, times int64) {
	t.Helper()
	until := p.probes.Load() + times
	require.Eventually(t, func() bool { return p.probes.Load() >= until }, patience, 5*time.Millisecond, "the worker is not probed")
}

// nextProbe is closed when the next probe comes.
func (p *puppet) nextProbe() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tick
}
