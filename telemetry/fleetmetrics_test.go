package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 5
func TestChangesOfTheFleetAreCounted(t *testing.T) {
	m := newTestMetrics()
	require.Len(t, series(t, m, "smg_jobs_total"), 6, "from the start")
	require.Len(t, series(t, m, "smg_worker_registration_total"), 10)
	m.Fleet.Job("AddWorker", time.Second, true)
	m.Fleet.Job("RemoveWorker", time.Second, false)
	m.Fleet.Job("made up", time.Second, true)
	m.Fleet.Registration(SourceAPI, time.Second, true)
	m.Fleet.Registration(SourceKubernetes, time.Second, false)
	m.Fleet.Registration("made up", time.Second, false)
	require.Equal(t, map[string]float64{"result=success,type=AddWorker": 1, "result=failed,type=RemoveWorker": 1}, nonZero(series(t, m, "smg_jobs_total")))
	require.Equal(t, map[string]float64{"type=AddWorker": 1, "type=RemoveWorker": 1}, nonZero(series(t, m, "smg_job_duration_seconds")))
	require.Equal(t, map[string]float64{"result=success,source=api": 1, "result=failed,source=kubernetes": 1},
		nonZero(series(t, m, "smg_worker_registration_total")))
	require.Equal(t, map[string]float64{"": 2}, series(t, m, "smg_worker_registration_duration_seconds"))
}

// telemetry.md, section 5: reused or not; only a connection that was made took time to make.
func TestConnectionsAreCounted(t *testing.T) {
	m := newTestMetrics()
	m.Upstream.Connection(false, time.Second)
	m.Upstream.Connection(true, 0)
	m.Upstream.Connection(true, 0)
	require.Equal(t, map[string]float64{"connection_mode=http,reused=false": 1, "connection_mode=http,reused=true": 2}, series(t, m, "smg_upstream_connections_total"))
	require.Equal(t, map[string]float64{"": 1}, series(t, m, "smg_upstream_connect_duration_seconds"))
}

// telemetry.md, section 5: optional per fleet size, off above 256 workers; section 2: none is left of a worker that has gone.
func TestTimeToTheHeadOfAWorker(t *testing.T) {
	const family = "smg_worker_request_duration_seconds"
	m := newTestMetrics()
	first := m.Workers.Add("http://w:0")
	require.Empty(t, series(t, m, family), "not before the first answer")
	first.Head(time.Second)
	first.Head(time.Second)
	require.Equal(t, map[string]float64{"worker=http://w:0": 2}, series(t, m, family))
	var last *WorkerSeries
	for i := range maxTimed {
		last = m.Workers.Add(fmt.Sprintf("http://w:%d", i+1))
	}
	last.Head(time.Second)
	require.Len(t, series(t, m, family), 1, "one too many")

	m.Workers.Forget(first)
	first.Head(time.Second)
	require.Empty(t, series(t, m, family), "what ends late brings nothing back")
	late := m.Workers.Add("http://w:0")
	m.Workers.Forget(late)
	late.Head(time.Second)
	require.Empty(t, series(t, m, family), "nor does a first answer")
	m.Workers.Forget(last)
	again := m.Workers.Add("http://w:0")
	again.Head(time.Second)
	require.Len(t, series(t, m, family), 1, "the place of one that has left is free")
}
