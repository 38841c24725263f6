package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

const insufficient = `{"status":"not ready","reason":"insufficient healthy workers"}`

// http-dataplane.md section 13, workers.md section 19
func TestReadinessIsWhetherAWorkerIsReady(t *testing.T) {
	tests := []struct {
		name   string
		change func(w1, w2 *workers.Worker)
		want   string
	}{
		{"all are ready", func(_, _ *workers.Worker) {}, ready(2, 2)},
		{"one is", func(w1, _ *workers.Worker) { w1.SetStatus(workers.NotReady) }, ready(1, 2)},
		{"one has failed", func(w1, _ *workers.Worker) { w1.SetStatus(workers.Failed) }, ready(1, 2)},
		{"one drains", func(w1, _ *workers.Worker) { w1.SetStatus(workers.Draining) }, ready(1, 2)},
		{"none is", func(w1, w2 *workers.Worker) { w1.SetStatus(workers.NotReady); w2.SetStatus(workers.Failed) }, insufficient},
		{"the last one drains", func(w1, w2 *workers.Worker) { w1.SetStatus(workers.NotReady); w2.SetStatus(workers.Draining) }, insufficient},
		{"open breakers do not matter", func(w1, w2 *workers.Worker) { trip(t, w1); trip(t, w2) }, ready(2, 2)},
		{"overload does not matter", func(w1, w2 *workers.Worker) { w1.SetOverloaded(true); w2.SetOverloaded(true) }, ready(2, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, nil, engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{}))
			g.serving(t, 2)
			all := g.gateway.registry.All()
			tt.change(all[0], all[1])
			got := g.get(t, "/readiness")
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.Equal(t, tt.want, got.Body)
			require.Equal(t, tt.want == insufficient, got.StatusCode == http.StatusServiceUnavailable)
			require.Equal(t, tt.want != insufficient, got.StatusCode == http.StatusOK)
			for _, path := range []string{"/health", "/liveness"} {
				live := g.get(t, path)
				require.Equal(t, http.StatusOK, live.StatusCode)
				require.Equal(t, "OK", live.Body)
				require.Equal(t, "text/plain; charset=utf-8", live.Header.Get("Content-Type"))
			}
		})
	}
}

func ready(healthy, total int) string {
	return fmt.Sprintf(`{"status":"ready","healthy_workers":%d,"total_workers":%d}`, healthy, total)
}

// trip opens a worker's breaker.
func trip(t testing.TB, w *workers.Worker) {
	t.Helper()
	for range 1000 {
		if w.Breaker().State() == workers.BreakerOpen {
			return
		}
		w.Breaker().Failure()
	}
	t.Fatal("the breaker does not open")
}

// http-dataplane.md section 13: workers come and go.
func TestReadinessFollowsTheRegistry(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.DrainSettle = 0 })
	require.Equal(t, insufficient, g.get(t, "/readiness").Body)
	id := g.add(t, `{"url":"`+e.URL+`"}`)
	g.await(t, "/readiness", http.StatusOK)
	require.Equal(t, ready(1, 1), g.get(t, "/readiness").Body)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
	g.await(t, "/readiness", http.StatusServiceUnavailable)
	require.Equal(t, insufficient, g.get(t, "/readiness").Body)
}

// DECISIONS.md row 41: a startup worker that is not there does not hold the others up.
func TestReadinessDoesNotWaitForAWorkerThatIsDown(t *testing.T) {
	t.Parallel() // it waits
	up, down := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	down.Down()
	g := start(t, nil, up, down)
	require.Equal(t, ready(1, 1), g.get(t, "/readiness").Body)
	require.NoError(t, down.Up())
	g.serving(t, 2)
	require.Equal(t, ready(2, 2), g.get(t, "/readiness").Body, "it joins when it is up")
}

// http-dataplane.md section 13, workers.md section 19: a port for probes alone.
func TestTheProbePortServesProbesAndNothingElse(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.HealthCheckPort, c.LogLevel = new(int), "debug" }, e)
	probe := func(method, path string) (int, string) {
		req, err := http.NewRequest(method, "http://"+g.probes.Addr().String()+path+"?here=1", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/health", 200, "OK"},
		{"GET", "/liveness", 200, "OK"},
		{"GET", "/readiness", 200, ready(1, 1) + "\n"},
		{"HEAD", "/health", 200, ""},
		{"POST", "/health", 405, "Method Not Allowed\n"},
		{"GET", "/workers", 404, "404 page not found\n"},
		{"GET", "/metrics", 404, "404 page not found\n"},
		{"GET", "/", 404, "404 page not found\n"},
	} {
		status, body := probe(tt.method, tt.path)
		require.Equal(t, tt.status, status, tt.path)
		require.Equal(t, tt.body, body, tt.path)
	}
	g.gateway.registry.All()[0].SetStatus(workers.NotReady)
	status, body := probe("GET", "/readiness")
	require.Equal(t, 503, status)
	require.Equal(t, insufficient+"\n", body)
	require.NotContains(t, g.Log.String(), "here=1", "nobody logs them")
}

// http-dataplane.md section 18: a port that is taken is named, and nothing stays open.
func TestAPortThatIsTakenIsAnErrorThatNamesIt(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		name      string
		configure func(*Config)
	}{
		{"the main port", func(c *Config) { c.Port = port }},
		{"the metrics port", func(c *Config) { c.PrometheusPort = port }},
		{"the probe port", func(c *Config) { c.HealthCheckPort = &port }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			cfg := Default()
			cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
			cfg.WorkerURLs = []string{e.URL}
			tt.configure(cfg)
			logs, err := telemetry.NewLogger(telemetry.LogOptions{Stdout: io.Discard})
			require.NoError(t, err)
			s, err := listen(cfg, logs)
			require.ErrorContains(t, err, fmt.Sprintf("127.0.0.1:%d", port))
			require.ErrorContains(t, err, "address already in use")
			if s.main != nil {
				_, err = s.main.Accept()
				require.ErrorIs(t, err, net.ErrClosed, "the others are closed again")
			}
			require.Empty(t, e.Requests(), "no worker was contacted")
		})
	}
}
