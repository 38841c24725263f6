package server

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// telemetry.md section 5: what the probes answer and what workers are is on the metrics page.
func TestThePageTellsTheStateOfTheGateway(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	gauge := func(series string) float64 {
		_, gauges := g.numbers(t)
		v, there := gauges[series]
		require.True(t, there, series)
		return v
	}
	require.Equal(t, 1.0, gauge("smg_ready"))
	require.Zero(t, gauge("smg_draining"))
	require.Equal(t, 1.0, gauge(fmt.Sprintf("smg_worker_status status=%q worker=%q", "ready", w.URL)))
	require.Equal(t, 1.0, gauge(fmt.Sprintf("smg_worker_info connection_mode=%q model=%q runtime=%q worker=%q worker_type=%q", "http", "m1", "sglang", w.URL, "regular")))
	require.Zero(t, gauge(fmt.Sprintf("smg_worker_overloaded worker=%q", w.URL)))

	g.worker(t, w.URL).SetStatus(workers.NotReady)
	require.Zero(t, gauge("smg_ready"))
	require.Equal(t, 1.0, gauge(fmt.Sprintf("smg_worker_status status=%q worker=%q", "not_ready", w.URL)))

	hung := engine.Start(t, engine.Config{})
	hung.SetFaults(engine.Fault{Path: "/health", HangHeadMillis: -1})
	require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+hung.URL+`"}`).StatusCode)
	g.until(t, func() bool { return gauge("smg_job_queue_running") == 1 })
	require.Zero(t, gauge("smg_job_queue_depth"))
	hung.SetFaults()
}
