package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// embed is a gateway in front of workers, for somebody's server; it is ready, and closed when the test ends.
func embed(t testing.TB, configure func(*Config), urls ...string) *Gateway {
	t.Helper()
	cfg := Default()
	cfg.WorkerURLs, cfg.StartupCheckInterval, cfg.SSEKeepalive, cfg.RetryInitialBackoff = urls, 1, 0, 1
	if configure != nil {
		configure(cfg)
	}
	g, err := New(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { g.Close(context.Background()) })
	require.Eventually(t, func() bool { return g.Ready() || len(urls) == 0 }, patience, 5*time.Millisecond)
	return g
}

func TestAGatewayServesBesideSomebodysRoutes(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := embed(t, nil, w.URL)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") })
	mux.Handle("/llm/", http.StripPrefix("/llm", g.Handler()))
	mux.Handle("/internal/numbers", g.Metrics())
	srv := hosted(t, mux)

	require.Equal(t, "mine", ask(t, "GET", srv.URL+"/readiness", "").Body)
	got := ask(t, "POST", srv.URL+"/llm"+chatPath, chat)
	require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
	requests := asked(w)
	require.Equal(t, chatPath, requests[len(requests)-1].Path, "the worker is sent the path that is left")
	require.Equal(t, http.StatusOK, ask(t, "GET", srv.URL+"/llm/readiness", "").StatusCode)
	got = ask(t, "GET", srv.URL+"/llm/nope", "")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	require.Equal(t, "unknown_url", got.Header.Get("X-Smg-Error-Code"))

	numbers := ask(t, "GET", srv.URL+"/internal/numbers", "")
	require.Equal(t, http.StatusOK, numbers.StatusCode)
	require.Contains(t, numbers.Body, `smg_http_requests_total{method="POST",path="`+chatPath+`"} 1`)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, "POST", srv.URL+"/internal/numbers", "").StatusCode)
	require.Equal(t, http.StatusNotFound, ask(t, "GET", srv.URL+"/llm/metrics", "").StatusCode, "not for clients")
}

// wrapped is a ResponseWriter as middleware makes them: it can do nothing but write, and tell what it wraps.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// mute is one that does not even tell what it wraps.
type mute struct{ inner http.ResponseWriter }

func (m mute) Header() http.Header         { return m.inner.Header() }
func (m mute) Write(p []byte) (int, error) { return m.inner.Write(p) }
func (m mute) WriteHeader(status int)      { m.inner.WriteHeader(status) }

// closes waits until a channel is closed.
func closes(t testing.TB, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(otherwise)
	}
}

// http-dataplane.md section 12: a client that leaves stops the worker, whoever has accepted its connection.
func TestAClientThatLeavesSomebodysServerStopsTheWorker(t *testing.T) {
	around := func(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(wrap(w), r) })
		}
	}
	mounts := []struct {
		name   string
		http2  bool
		prefix string
		mount  func(http.Handler) http.Handler
	}{
		{"as it is", false, "", func(h http.Handler) http.Handler { return h }},
		{"below a path", false, "/llm", func(h http.Handler) http.Handler { return http.StripPrefix("/llm", h) }},
		{"behind middleware", false, "", around(func(w http.ResponseWriter) http.ResponseWriter { return wrapped{w} })},
		{"over HTTP/2", true, "", func(h http.Handler) http.Handler { return h }},
	}
	for _, tt := range mounts {
		for _, streaming := range []bool{true, false} {
			name := tt.name + ", while the worker is silent"
			if streaming {
				name = tt.name + ", in mid-stream"
			}
			t.Run(name, func(t *testing.T) {
				began, gone := make(chan struct{}), make(chan struct{})
				p := startPuppet(t, func(a *act) {
					if streaming {
						a.stream()
						a.chunk("data: 1\n\n")
					}
					close(began)
					<-a.gone
					close(gone)
				})
				srv := httptest.NewUnstartedServer(tt.mount(embed(t, nil, p.URL).Handler()))
				srv.EnableHTTP2 = tt.http2
				if tt.http2 {
					srv.StartTLS()
				} else {
					srv.Start()
				}
				t.Cleanup(func() { p.hangUp(); srv.Close() }) // else a request that nobody ends would hold the end up
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				req, err := http.NewRequestWithContext(ctx, "POST", srv.URL+tt.prefix+chatPath, strings.NewReader(chats))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					resp, err := srv.Client().Do(req)
					if err == nil {
						_, _ = io.ReadAll(resp.Body)
						_ = resp.Body.Close()
					}
				}()
				closes(t, began, "the worker is not asked")
				leave()
				closes(t, answered, "the client waits on")
				closes(t, gone, "the worker's connection stays")
			})
		}
	}
}

// A stream gets through middleware that cannot flush, if not at once.
func TestAStreamIsWholeBehindAWriterThatCannotFlush(t *testing.T) {
	w := engine.Start(t, engine.Config{ITL: time.Millisecond})
	h := embed(t, nil, w.URL).Handler()
	srv := hosted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(mute{w}, r) }))
	got := ask(t, "POST", srv.URL+chatPath, chats)
	require.NoError(t, got.Err)
	require.True(t, strings.HasSuffix(got.Body, "data: [DONE]\n\n"), got.Body)
}

// http-dataplane.md section 11: a response that breaks does not look whole behind somebody's server either.
func TestABrokenStreamIsCutThroughSomebodysServer(t *testing.T) {
	p := startPuppet(t, func(a *act) { a.stream(); a.chunk("data: 1\n\n") })
	srv := hosted(t, http.StripPrefix("/llm", embed(t, nil, p.URL).Handler()))
	got := ask(t, "POST", srv.URL+"/llm"+chatPath, chats)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.ErrorIs(t, got.Err, io.ErrUnexpectedEOF)
}

// http-dataplane.md section 3: a body that stops arriving is 408, whoever has accepted the connection.
func TestABodyThatStallsIsGivenUpInSomebodysServer(t *testing.T) {
	t.Parallel() // it waits
	w := engine.Start(t, engine.Config{})
	srv := hosted(t, embed(t, func(c *Config) { c.BodyStallTimeout = 1 }, w.URL).Handler())
	c := (&running{URL: srv.URL}).dial(t)
	c.post(t, chatPath, len(chat), chat[:10])
	resp := c.read(t)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	require.Equal(t, "request_body_stalled", resp.Header.Get("X-Smg-Error-Code"))
}

func TestAConfigurationIsCheckedWithoutWhatIsIgnored(t *testing.T) {
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort, cfg.HealthCheckPort = "no host", 0, "nowhere", -1, new(int)
	cfg.HeaderReadTimeout, cfg.IdleConnectionTimeout, cfg.ShutdownGracePeriod, cfg.WorkerThreads = -1, -1, -1, new(int)
	g, err := New(cfg, nil)
	require.NoError(t, err)
	g.Close(context.Background())

	cfg.WorkerURLs, cfg.RequestTimeout = []string{"ftp://a"}, 0
	_, err = New(cfg, nil)
	var wrong *ConfigError
	require.ErrorAs(t, err, &wrong)
	require.Len(t, wrong.Violations, 2)
	require.ErrorContains(t, err, "invalid --worker-urls: 'ftp://a': ")
	require.ErrorContains(t, err, "\ninvalid --request-timeout-secs: '0': ")

	cfg = Default()
	cfg.Policy = "astrology"
	_, err = New(cfg, nil)
	require.ErrorContains(t, err, `unknown policy "astrology"`)
}

// DESIGN.md section 1: the gateway's chains are a program's to change.
func TestAProgramChangesTheChainsOfItsGateway(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := embed(t, nil, w.URL)
	srv := hosted(t, g.Handler())
	before := len(asked(w))
	_, err := g.Chain("POST /v1/chat")
	require.ErrorContains(t, err, `there is no route "POST /v1/chat"; the gateway has POST /v1/chat/completions, `)

	chain, err := g.Chain("POST " + chatPath)
	require.NoError(t, err)
	chain, err = chain.Replace("forward", pipeline.StageFunc("pick", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}},
		func(x *pipeline.Exchange, _ pipeline.Next) error {
			return answer(x, http.StatusOK, "text/plain", []byte(x.Target().URL()))
		}))
	require.NoError(t, err)
	require.NoError(t, g.Use(chain, says(t, "GET /mine", "mine")))
	require.Equal(t, w.URL, ask(t, "POST", srv.URL+chatPath, chat).Body)
	require.Equal(t, "mine", ask(t, "GET", srv.URL+"/mine", "").Body)
	require.Len(t, asked(w), before, "nothing was forwarded")
	require.Equal(t, http.StatusOK, ask(t, "POST", srv.URL+"/v1/completions", `{"model":"m1","prompt":"x"}`).StatusCode, "other routes are as they were")

	now, err := g.Chain("POST " + chatPath)
	require.NoError(t, err)
	require.Same(t, chain, now)

	for want, chains := range map[string][]*pipeline.Chain{
		`route "nowhere" is not a method and a path`: {says(t, "nowhere", "")},
		"two chains for the route GET /twice":        {says(t, "GET /twice", ""), says(t, "GET /twice", "")},
		"two chains for the route GET /mine":         {says(t, "GET /mine", "a"), says(t, "GET /mine", "b")},
		"is nil":                                     {nil},
	} {
		require.ErrorContains(t, g.Use(chains...), want)
		require.Equal(t, "mine", ask(t, "GET", srv.URL+"/mine", "").Body, "a refusal leaves everything as it was")
	}
}

// http-dataplane.md section 13: not ready, and serving.
func TestADrainingGatewayServesUntilItIsClosed(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := embed(t, nil, w.URL)
	srv := hosted(t, g.Handler())
	require.True(t, g.Ready())
	g.Drain()
	require.False(t, g.Ready())
	require.Equal(t, draining, ask(t, "GET", srv.URL+"/readiness", "").Body)
	require.Equal(t, http.StatusOK, ask(t, "POST", srv.URL+chatPath, chat).StatusCode)
	srv.Close()
	g.Close(context.Background())
	g.Close(context.Background())
	require.Error(t, g.Use(says(t, "GET /late", "")))
}
