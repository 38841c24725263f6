package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// telemetry.md, section 5: how registrations and jobs end, connections, the time to a worker's head, and what the policies that go by
// load think of it.
func TestWhatAnOperatorWantsToKnowOfTheFleet(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.Policy, c.LoadMonitorInterval, c.DrainSettle = "least_load", 1, 0 })
	id := g.add(t, `{"url":"`+e.URL+`"}`)
	g.becomes(t, id, "ready")
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodPatch, "/workers/"+id, `{"priority":7}`, "Content-Type", "application/json").StatusCode)
	g.until(t, func() bool { return g.worker(t, e.URL).Revision() == 1 && g.worker(t, e.URL).Report() != nil })
	for range 2 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	g.quiet(t)
	counters, gauges := g.numbers(t)
	for name, want := range map[string]float64{
		`smg_worker_registration_total result="success" source="api"`:          1,
		`smg_worker_registration_total result="failed" source="api"`:           0,
		`smg_jobs_total result="success" type="AddWorker"`:                     1,
		`smg_jobs_total result="success" type="UpdateWorker"`:                  1,
		`smg_jobs_total result="success" type="RemoveWorker"`:                  0,
		`smg_upstream_connections_total connection_mode="http" reused="false"`: 1,
		`smg_upstream_connections_total connection_mode="http" reused="true"`:  1,
		`smg_stream_backpressure_seconds_total endpoint="chat"`:                0,
	} {
		got, there := counters[name]
		require.True(t, there, "%s is missing of %v", name, counters)
		require.Equal(t, want, got, name)
	}
	_, there := gauges[`smg_worker_expected_wait_seconds worker="`+e.URL+`"`]
	require.True(t, there)

	page := g.page(t)
	require.EqualValues(t, 2, page["smg_worker_request_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
	require.EqualValues(t, 1, page["smg_policy_decision_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
	require.EqualValues(t, 1, page["smg_gateway_overhead_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
}

// telemetry.md, section 5, the check: a worker that takes 200 ms to its head is none of the gateway's own time.
func TestOverheadLeavesTheWorkerOut(t *testing.T) {
	const head = 200 * time.Millisecond
	e := engine.Start(t, engine.Config{})
	e.SetFaults(engine.Fault{HangHeadMillis: int(head.Milliseconds())})
	g := start(t, nil, e)
	began := time.Now()
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	took := time.Since(began)
	g.quiet(t)
	h := g.page(t)["smg_gateway_overhead_seconds"].GetMetric()[0].GetHistogram()
	require.EqualValues(t, 1, h.GetSampleCount())
	require.LessOrEqual(t, h.GetSampleSum(), (took - head).Seconds(), "of %s", took)
}
