package server

import (
	"bufio"
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
	play   func(*act)
	acts   sync.WaitGroup
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
	p := &puppet{play: play}
	srv := httptest.NewServer(p)
	p.URL = srv.URL
	t.Cleanup(func() {
		srv.Close()
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
		p.probes.Add(1)
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
	p.posts.Add(1)
	p.play(a)
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

func (a *act) chunk(s string) { a.write(fmt.Sprintf("%x\r\n%s\r\n", len(s), s)) }

// done ends a body that comes in chunks.
func (a *act) done() { a.write("0\r\n\r\n") }

// answer sends a whole JSON answer.
func (a *act) answer(body string) {
	a.head("200 OK", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))
	a.write(body)
}

// startPuppets runs a gateway in front of puppets, and waits until all of them serve.
func startPuppets(t testing.TB, configure func(*Config), puppets ...*puppet) *running {
	t.Helper()
	g := start(t, func(c *Config) {
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

// serving waits until so many workers are available and the gateway says that it is ready.
func (g *running) serving(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		available := 0
		for _, w := range g.gateway.registry.All() {
			if w.Available() {
				available++
			}
		}
		return available == n
	}, patience, time.Millisecond, "never %d workers that serve", n)
	g.await(t, "/readiness", http.StatusOK)
}

// wire is a client's connection, for what a well-behaved HTTP client does not do. Its answer is read with read.
type wire struct {
	*net.TCPConn
	in *bufio.Reader
}

// dial opens a client's connection; it is closed when the test ends, and fails rather than waits for ever.
func (g *running) dial(t testing.TB) *wire {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &wire{c.(*net.TCPConn), bufio.NewReader(c)}
}

// post sends a request head, and as much of the declared body as is given.
func (w *wire) post(t testing.TB, path string, length int, body string, headers ...string) {
	t.Helper()
	lines := append([]string{
		"POST " + path + " HTTP/1.1", "Host: gateway", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", length),
	}, headers...)
	_, err := io.WriteString(w, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
	require.NoError(t, err)
}

// read reads the head of an answer; its body is read by the caller.
func (w *wire) read(t testing.TB) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(w.in, nil)
	require.NoError(t, err)
	return resp
}

// leave closes the connection; with reset, as a crashed client's system does.
func (w *wire) leave(reset bool) {
	if reset {
		_ = w.SetLinger(0)
	}
	_ = w.Close()
}

// failures is what the breakers of all workers have counted against them.
func (g *running) failures() (n int64) {
	for _, w := range g.gateway.registry.All() {
		n += w.Breaker().ConsecutiveFailures()
	}
	return n
}
