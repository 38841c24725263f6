package server

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// Case C12, workers.md sections 6 and 7: a worker that fails a probe now and then stays in and keeps its share of the requests; three
// failures in a row take it out, and two successes in a row, not one, bring it back. What it is working on goes on. (That no two probes
// of a worker overlap, and the exact order of all this, is in the tests of the package workers.)
func TestC12AWorkerThatFlapsStaysIn(t *testing.T) {
	t.Parallel() // it waits for probes
	for _, probe := range []engine.Fault{{Path: "/health", Status: 503}, {Path: "/health", HangHeadMillis: 3000}} {
		w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
		g := start(t, func(c *Config) {
			c.HealthCheckInterval, c.HealthCheckTimeout, c.HealthFailureThreshold, c.HealthSuccessThreshold = 1, 1, 3, 2
		}, w1, w2)
		for range 2 { // fail, fail, ok
			failing := probe
			failing.Count = 2
			w1.SetFaults(failing)
			g.probedMore(t, w1, 3)
			require.Equal(t, workers.Ready, g.worker(t, w1.URL).Status())
		}
		before := len(posts(w1))
		for range 20 {
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
		}
		require.Equal(t, 10, len(posts(w1))-before, "its share")
	}
}

// probedMore waits until an engine has been probed so many times more.
func (g *running) probedMore(t testing.TB, e *engine.Running, n int) {
	t.Helper()
	probes := func() (count int) {
		for _, r := range e.Requests() {
			if r.Path == "/health" {
				count++
			}
		}
		return count
	}
	enough := probes() + n
	g.until(t, func() bool { return probes() >= enough })
}

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
