package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 5
func TestTheStateOfTheGatewayIsReadAtTheScrape(t *testing.T) {
	m := newTestMetrics()
	read := func() []float64 {
		var values []float64
		for _, name := range []string{"smg_ready", "smg_draining", "smg_job_queue_depth", "smg_job_queue_running"} {
			values = append(values, series(t, m, name)[""])
		}
		return values
	}
	require.Equal(t, []float64{0, 0, 0, 0}, read(), "before there is a gateway")
	state := GatewayState{Ready: true, JobsWaiting: 7, JobsWorking: 3}
	m.SetState(func() GatewayState { return state })
	require.Equal(t, []float64{1, 0, 7, 3}, read())
	state = GatewayState{Draining: true}
	require.Equal(t, []float64{0, 1, 0, 0}, read())
}

// telemetry.md, section 5: one state at a time, and what a worker is.
func TestAWorkerIsDescribed(t *testing.T) {
	m := newTestMetrics()
	w := WorkerSample{
		URL: "http://w:1", Type: WorkerRegular, ConnectionMode: "http", Model: "m", Status: "draining", Runtime: "vllm", Overloaded: true,
	}
	m.Workers.SetSource(func(yield func(WorkerSample) bool) { yield(w) })
	require.Equal(t, map[string]float64{"status=draining,worker=http://w:1": 1}, series(t, m, "smg_worker_status"))
	require.Equal(t, map[string]float64{"worker=http://w:1": 1}, series(t, m, "smg_worker_overloaded"))
	require.Equal(t, map[string]float64{"connection_mode=http,model=m,runtime=vllm,worker=http://w:1,worker_type=regular": 1}, series(t, m, "smg_worker_info"))
	w.Status, w.Overloaded = "ready", false
	require.Equal(t, map[string]float64{"status=ready,worker=http://w:1": 1}, series(t, m, "smg_worker_status"))
	require.Equal(t, map[string]float64{"worker=http://w:1": 0}, series(t, m, "smg_worker_overloaded"))
}

// telemetry.md, section 5
func TestAttemptsAreRecordedByHowTheyEnded(t *testing.T) {
	m := newTestMetrics()
	chat, other := m.Router.Series("m", EndpointChat), m.Router.Series("m2", EndpointChat)
	chat.Attempts(1, false)
	other.Attempts(3, false)
	chat.Attempts(5, true)
	chat.Attempts(0, true) // refused before it was tried
	require.Equal(t, map[string]float64{"endpoint=chat,outcome=ok": 2, "endpoint=chat,outcome=failed": 1}, series(t, m, "smg_router_attempts"))
}
