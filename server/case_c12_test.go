package server

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// Case C12, workers.md sections 6 and 7: a worker that fails a probe now and then stays in and keeps its share of the requests; three
// failures in a row take it out, and two successes in a row, not one, bring it back. What it is working on goes on. (That no two probes
// of a worker overlap, and the exact order of all this, is in the tests of the package workers.)
func TestC12AWorkerThatFlapsStaysIn(t *testing.T) {
	t.Parallel() // it waits for probes
	for name, probe := range map[string]engine.Fault{
		"probes fail": {Path: "/health", Status: 503}, "probes hang": {Path: "/health", HangHeadMillis: 3000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
			g := start(t, func(c *Config) {
				c.HealthCheckInterval, c.HealthCheckTimeout, c.HealthFailureThreshold, c.HealthSuccessThreshold = 1, 1, 3, 2
			}, w1, w2)
			sent := 0
			for range 2 { // fail, fail, ok
				failing := probe
				failing.Count = 2
				w1.SetFaults(failing)
				enough := probesOf(w1) + 3
				sent += g.servesUntil(t, w1, func() bool { return probesOf(w1) >= enough })
			}
			require.InDelta(t, 0.5, float64(len(posts(w1)))/float64(sent), 0.1, "its share of %d", sent)
		})
	}
}

// servesUntil sends chats, ten a second at most, until something is over. All the time, and for ten requests at least, a worker is in,
// as the worker API and the metrics say.
func (g *running) servesUntil(t *testing.T, e *engine.Running, over func() bool) (sent int) {
	t.Helper()
	next := time.NewTicker(100 * time.Millisecond)
	defer next.Stop()
	for began := time.Now(); sent < 10 || !over(); <-next.C {
		require.Less(t, time.Since(began), patience, "the worker is not probed")
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
		sent++
		require.Equal(t, "ready", g.shown(t, e.URL).Status)
		require.Equal(t, 1.0, g.of(t, "smg_worker_health", e.URL))
	}
	return sent
}

// shown is a worker as GET /workers shows it.
func (g *running) shown(t testing.TB, url string) shownWorker {
	t.Helper()
	all := decode[struct{ Workers []shownWorker }](t, g.get(t, "/workers")).Workers
	i := slices.IndexFunc(all, func(w shownWorker) bool { return w.URL == url })
	require.GreaterOrEqual(t, i, 0, "no worker %s", url)
	return all[i]
}

// probesOf is how many times an engine has been probed.
func probesOf(e *engine.Running) int64 { return e.State().Paths["/health"] }

// C12: going out cuts nothing, and coming back takes two good probes in a row.
func TestC12AWorkerThatGoesOutEndsItsStreams(t *testing.T) {
	t.Parallel() // it waits for probes
	release := make(chan struct{})
	sick := make(chan bool, 1)
	sick <- false
	p := startHTTPWorker(t, workerPlan{Health: func(w http.ResponseWriter, _ *http.Request) {
		ill := <-sick
		sick <- ill
		if ill {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, Post: func(w *postWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.ResponseWriter.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}})
	g := start(t, func(c *Config) {
		c.WorkerURLs, c.SSEKeepalive = []string{p.URL}, 0
		c.HealthCheckInterval, c.HealthCheckTimeout, c.HealthFailureThreshold, c.HealthSuccessThreshold = 1, 1, 3, 2
	})
	g.serving(t, 1)
	stream := g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)
	<-sick
	sick <- true
	w := g.only(t)
	g.until(t, func() bool { return w.Status() == workers.NotReady })
	requireJSONError(t, g.post(t, chatPath, chat), http.StatusServiceUnavailable, "no_available_workers")
	require.EqualValues(t, 1, w.InFlight())
	<-sick
	sick <- false
	g.until(t, w.Ready)
	close(release)
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(rest))
	g.quiet(t)
}
