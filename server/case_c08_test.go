package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// Case C08, workers.md section 9, DECISIONS 3: a worker that says "busy" is not taken for dead. Its breaker neither counts a 429 nor
// forgets failures for it, clients see it when all are busy, and nobody has to wait for a time-out after that. A 503 is a failure.
func TestC08PushBackIsNoFailure(t *testing.T) {
	w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
	g := start(t, func(c *Config) {
		c.CBFailureThreshold, c.CBTimeout, c.RetryMaxRetries, c.RetryInitialBackoff = 3, 3600, 2, 1
	}, w1, w2)
	busy := engine.Fault{Status: http.StatusTooManyRequests, Body: `{"error":{"message":"slow down","type":"rate_limit_error"}}`}
	first := g.worker(t, w1.URL)

	w1.SetFaults(busy)
	for range 30 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	require.Equal(t, workers.BreakerClosed, first.Breaker().State())
	require.Zero(t, first.Breaker().ConsecutiveFailures())
	require.Zero(t, g.outcomes(t, w1.URL, "failure"))

	w2.SetFaults(busy)
	for range 10 {
		got := g.post(t, chatPath, chat)
		require.Equal(t, http.StatusTooManyRequests, got.StatusCode)
		require.JSONEq(t, `{"error":{"message":"slow down","type":"rate_limit_error"}}`, got.Body, "the worker's own words")
	}
	require.Zero(t, g.failures())

	w1.SetFaults()
	w2.SetFaults()
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode, "at once")

	w1.SetFaults(engine.Fault{Status: http.StatusServiceUnavailable, Count: 3})
	for first.Breaker().State() == workers.BreakerClosed {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode, "another worker serves")
	}
	require.Equal(t, workers.BreakerOpen, first.Breaker().State())
	require.Equal(t, 3, g.outcomes(t, w1.URL, "failure"))
	before := len(posts(w1))
	for range 10 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	require.Len(t, posts(w1), before, "it gets nothing while its breaker is open")
}

// outcomes is what smg_worker_cb_outcomes_total counts of a worker.
func (g *running) outcomes(t testing.TB, url, outcome string) (n int) {
	t.Helper()
	family := g.page(t)["smg_worker_cb_outcomes_total"]
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["worker"] == url && labels["outcome"] == outcome {
			n += int(m.GetCounter().GetValue())
		}
	}
	return n
}
