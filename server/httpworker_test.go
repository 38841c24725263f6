package server

import (
	"context"
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

// httpWorker is a worker made of a net/http server, which keeps connections alive: for what a test says about addresses, heads and
// connections. It answers what a gateway asks of an engine; what it does with a POST is the test's.
type httpWorker struct {
	URL   string
	Port  string
	Close func() // ends it before the test does

	mu   sync.Mutex
	seen []seen
}

// seen is one request that came in.
type seen struct {
	Method, URI, Host, ID string
	Auth                  []string
	Conn                  string // the peer's address
	Nth                   int32  // of its connection, from 1
}

// workerPlan is what an httpWorker is. The zero value listens on 127.0.0.1 and answers every POST.
type workerPlan struct {
	Addr   string                               // to listen on; 127.0.0.1:0 if empty
	Prefix string                               // in front of every path; anything else is 404
	Idle   time.Duration                        // after which an idle connection is closed; 0: never
	Models string                               // what it says to /v1/models; "m1" if empty
	Post   func(w *postWriter, r *http.Request) // nil: chatAnswer
	Get    http.HandlerFunc                     // for paths that it does not know itself; nil: 404
	Health http.HandlerFunc                     // for /health; nil: 200
}

// postWriter is a response to a POST that knows its place.
type postWriter struct {
	http.ResponseWriter
	Nth int32 // of the connection, from 1
}

const chatAnswer = `{"id":"W1-1","object":"chat.completion","model":"m1","choices":[]}`

// hangUp closes the connection as it is.
func (w *postWriter) hangUp() {
	if conn, _, err := w.ResponseWriter.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// answerAndHangUp sends a whole answer that promises to keep the connection, and closes it.
func (w *postWriter) answerAndHangUp() {
	conn, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	_ = rw.Flush()
}

type nthKey struct{}

func startHTTPWorker(t testing.TB, plan workerPlan) *httpWorker {
	t.Helper()
	if plan.Addr == "" {
		plan.Addr = "127.0.0.1:0"
	}
	if plan.Models == "" {
		plan.Models = `{"object":"list","data":[{"id":"m1","object":"model","owned_by":"vllm"}]}`
	}
	ln, err := net.Listen("tcp", plan.Addr)
	require.NoError(t, err)
	w := &httpWorker{URL: "http://" + ln.Addr().String()}
	_, w.Port, _ = net.SplitHostPort(ln.Addr().String())
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(plan, rw, r) }))
	_ = srv.Listener.Close()
	srv.Listener, srv.Config.IdleTimeout = ln, plan.Idle
	srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, nthKey{}, new(atomic.Int32))
	}
	srv.Start()
	w.Close = srv.Close
	t.Cleanup(srv.Close)
	return w
}

func (w *httpWorker) serve(plan workerPlan, rw http.ResponseWriter, r *http.Request) {
	nth := r.Context().Value(nthKey{}).(*atomic.Int32).Add(1)
	w.mu.Lock()
	w.seen = append(w.seen, seen{
		r.Method, r.RequestURI, r.Host, r.Header.Get("X-Request-Id"), r.Header.Values("Authorization"), r.RemoteAddr, nth,
	})
	w.mu.Unlock()
	path, ours := strings.CutPrefix(r.URL.Path, plan.Prefix)
	switch {
	case !ours:
		http.NotFound(rw, r)
	case r.Method == http.MethodPost && plan.Post != nil:
		plan.Post(&postWriter{rw, nth}, r)
	case r.Method == http.MethodPost:
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, chatAnswer)
	case plan.Get != nil && path != "/v1/models" && path != "/health":
		plan.Get(rw, r)
	case path == "/health" && plan.Health != nil:
		plan.Health(rw, r)
	case path == "/health":
	case path == "/v1/models":
		_, _ = io.WriteString(rw, plan.Models)
	default:
		http.NotFound(rw, r)
	}
}

// Seen are the requests of a method so far; of all methods if it is empty.
func (w *httpWorker) Seen(method string) (found []seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if method == "" || s.Method == method {
			found = append(found, s)
		}
	}
	return found
}

// tries counts the POSTs for each request id.
func (w *httpWorker) tries() map[string]int {
	tries := map[string]int{}
	for _, s := range w.Seen(http.MethodPost) {
		tries[s.ID]++
	}
	return tries
}

// fronting is a configuration's part that names workers by their URLs.
func fronting(urls ...string) func(*Config) {
	return func(c *Config) { c.WorkerURLs = append(c.WorkerURLs, urls...) }
}
