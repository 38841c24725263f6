package clustertest

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// Proxy stands between what is tested and the API server. It speaks TLS on both sides, so that it can count what it passes on.
type Proxy struct {
	URL string

	gate *gate
	mu   sync.Mutex
	call []Call
}

// Call is a request for pods that a proxy has seen.
type Call struct {
	Path     string
	Query    url.Values
	Watch    bool
	Continue bool // of a list: a page behind the first
	Status   int  // 0 until it is answered
}

// Proxy starts a proxy to the API server, until the test ends.
func (c *Cluster) Proxy(tb TB) *Proxy {
	tb.Helper()
	target, err := url.Parse(c.URL)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{URL: "https://" + ln.Addr().String(), gate: newGate(ln)}
	upstream := &http.Transport{TLSClientConfig: c.identity.client.Clone(), MaxIdleConnsPerHost: 8, DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     upstream,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if nobody were there
	}
	server := &http.Server{Handler: p.counted(forward), TLSConfig: c.identity.server.Clone(), ErrorLog: log.New(io.Discard, "", 0)}
	server.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(tls.NewListener(p.gate, server.TLSConfig)) })
	tb.Cleanup(func() {
		p.gate.set(opened)
		_ = server.Close()
		p.gate.reset()
		wg.Wait()
		upstream.CloseIdleConnections()
	})
	return p
}

// counted notes the requests for pods on their way.
func (p *Proxy) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			next.ServeHTTP(w, r)
			return
		}
		query := r.URL.Query()
		p.mu.Lock()
		at := len(p.call)
		p.call = append(p.call, Call{
			Path: r.URL.Path, Query: query, Continue: query.Get("continue") != "",
			Watch: query.Get("watch") == "true" || query.Get("watch") == "1",
		})
		p.mu.Unlock()
		next.ServeHTTP(&statusWriter{w, p, at}, r)
	})
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	proxy *Proxy
	at    int
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.proxy.mu.Lock()
	w.proxy.call[w.at].Status = status
	w.proxy.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the proxy flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Calls are the requests for pods so far, in the order in which they came.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.call...)
}

// Lists is how many lists were begun: pages behind the first do not count.
func (p *Proxy) Lists() int { return p.count(func(c Call) bool { return !c.Watch && !c.Continue }) }

// Watches is how many watches were begun.
func (p *Proxy) Watches() int { return p.count(func(c Call) bool { return c.Watch }) }

// Watching is how many watches the API server has accepted.
func (p *Proxy) Watching() int {
	return p.count(func(c Call) bool { return c.Watch && c.Status == http.StatusOK })
}

func (p *Proxy) count(which func(Call) bool) (n int) {
	for _, c := range p.Calls() {
		if which(c) {
			n++
		}
	}
	return n
}

// Cut resets all connections, and those that come from now on, until Restore.
func (p *Proxy) Cut() {
	p.gate.set(cut)
	p.gate.reset()
}

// Reset resets all connections; new ones are welcome.
func (p *Proxy) Reset() { p.gate.reset() }

// Stall lets no more byte through in either direction, on old connections and new ones, until Restore.
func (p *Proxy) Stall() { p.gate.set(stalled) }

// Restore ends Cut and Stall.
func (p *Proxy) Restore() { p.gate.set(opened) }
