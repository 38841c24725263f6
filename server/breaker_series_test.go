package server

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// telemetry.md, section 4.4, first Check: three failures with a threshold of three open the breaker; the next request behind the open
// time finds it half-open. The page says so, and how often each has happened.
func TestThePageFollowsABreaker(t *testing.T) {
	t.Parallel() // it waits for the open time to pass
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) {
		c.CBFailureThreshold, c.CBSuccessThreshold, c.CBTimeout, c.DisableRetries = 3, 2, 1, true
		c.HealthCheckInterval = 3600
	}, e)
	counted := func(name string, labels string) float64 {
		counters, _ := g.numbers(t)
		return counters[fmt.Sprintf(name+labels, e.URL)]
	}
	moves := func(from, to string) float64 {
		return counted("smg_worker_cb_transitions_total", fmt.Sprintf(" from=%q to=%q worker=%%q", from, to))
	}
	outcomes := func(outcome string) float64 {
		return counted("smg_worker_cb_outcomes_total", fmt.Sprintf(" outcome=%q worker=%%q", outcome))
	}
	requireStreaks := func(failures, successes float64) {
		t.Helper()
		require.Equal(t, failures, g.of(t, "smg_worker_cb_consecutive_failures", e.URL))
		require.Equal(t, successes, g.of(t, "smg_worker_cb_consecutive_successes", e.URL))
	}
	requireStreaks(0, 0)
	require.Zero(t, g.of(t, "smg_worker_cb_state", e.URL))

	e.SetFaults(engine.Fault{Status: 500})
	for range 3 {
		require.Zero(t, moves("closed", "open"))
		require.Equal(t, http.StatusInternalServerError, g.post(t, chatPath, chat).StatusCode)
	}
	g.quiet(t)
	require.Equal(t, 3.0, outcomes("failure"))
	require.Equal(t, 1.0, moves("closed", "open"))
	require.Contains(t, []float64{1, 2}, g.of(t, "smg_worker_cb_state", e.URL), "open, but for a machine that stalls")

	e.SetFaults(engine.Fault{HangHeadMillis: -1}) // so that the next request is seen before it has an outcome
	g.until(t, func() bool { return g.worker(t, e.URL).Breaker().State() == workers.BreakerHalfOpen })
	c := g.dial(t)
	c.post(t, chatPath, len(chat), chat)
	g.until(t, func() bool { return e.State().InFlight == 1 })
	require.Equal(t, 1.0, moves("open", "half_open"))
	require.Equal(t, 2.0, g.of(t, "smg_worker_cb_state", e.URL))
	requireStreaks(0, 0)
	c.leave(false)
	g.quiet(t)

	e.SetFaults()
	for range 2 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	g.quiet(t)
	require.Equal(t, 2.0, outcomes("success"))
	require.Equal(t, 3.0, outcomes("failure"))
	require.Equal(t, 1.0, moves("half_open", "closed"))
	require.Zero(t, g.of(t, "smg_worker_cb_state", e.URL))
}
