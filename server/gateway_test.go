package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/telemetry"
)

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 20 * time.Second

// running is a whole gateway that listens on loopback.
type running struct {
	*server
	URL     string
	Metrics string
	Log     *lines
	stop    chan os.Signal
	done    chan error
}

// start runs a gateway in front of the engines until the test ends, and waits until it is ready if it has any. configure may be
// nil.
func start(t testing.TB, configure func(*Config), engines ...*engine.Running) *running {
	t.Helper()
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.StartupCheckInterval, cfg.ShutdownGracePeriod, cfg.RetryInitialBackoff = 1, 0, 1
	cfg.Policy = "round_robin" // whoever asks can tell who is next
	for _, e := range engines {
		cfg.WorkerURLs = append(cfg.WorkerURLs, e.URL)
	}
	if configure != nil {
		configure(cfg)
	}
	log := &lines{}
	options := cfg.LogConfig.Options()
	options.Stdout = log
	logs, err := telemetry.NewLogger(options)
	require.NoError(t, err)
	s, err := listen(cfg, logs)
	require.NoError(t, err)
	g := &running{
		server: s, URL: "http://" + s.main.Addr().String(), Metrics: "http://" + s.metrics.Addr().String() + "/metrics",
		Log: log, stop: make(chan os.Signal, 3), done: make(chan error, 1),
	}
	go func() { g.done <- s.run(context.Background(), g.stop) }()
	t.Cleanup(func() {
		g.stop <- os.Interrupt
		select {
		case err := <-g.done:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Error("the gateway does not end")
		}
		http.DefaultClient.CloseIdleConnections()
	})
	if len(engines) > 0 {
		g.await(t, "/readiness", http.StatusOK)
	}
	return g
}

// await asks a path until it answers with a status.
func (g *running) await(t testing.TB, path string, status int) {
	t.Helper()
	require.Eventually(t, func() bool { return g.get(t, path).StatusCode == status }, patience, 5*time.Millisecond, "GET %s never was %d", path, status)
}

// response is an answer that was read to its end.
type response struct {
	*http.Response
	Body string
	Err  error // why the body ended, if not well
}

func (g *running) do(t testing.TB, method, path, body string, headers ...string) response {
	t.Helper()
	if body != "" {
		headers = append([]string{"Content-Type", "application/json"}, headers...)
	}
	return g.sent(t, method, path, body, headers...)
}

// sent sends a request with these headers alone.
func (g *running) sent(t testing.TB, method, path, body string, headers ...string) response {
	t.Helper()
	req, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return response{resp, string(read), err}
}

func (g *running) get(t testing.TB, path string) response { return g.do(t, http.MethodGet, path, "") }

func (g *running) post(t testing.TB, path, body string, headers ...string) response {
	return g.do(t, http.MethodPost, path, body, headers...)
}

// chat is a small chat request, and chats a streamed one.
const (
	chatPath = "/v1/chat/completions"
	chat     = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
	chats    = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true}`
)

// quiet waits until nothing is in flight any more, with any worker or in the gateway as a whole.
func (g *running) quiet(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, w := range g.gateway.registry.All() {
			if w.InFlight() != 0 {
				return false
			}
		}
		return g.gateway.metrics.Inflight.Len() == 0
	}, patience, time.Millisecond, "something stays in flight")
}

// lines collects log output.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
