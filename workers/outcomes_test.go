package workers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// fleetCounts are the series of changes of the fleet that are not 0: the values of their labels, and how often.
func fleetCounts(t *testing.T, m *telemetry.Metrics) map[string]int {
	t.Helper()
	families, err := m.Registry().Gather()
	require.NoError(t, err)
	all := map[string]int{}
	for _, f := range families {
		switch f.GetName() {
		case "smg_jobs_total", "smg_job_duration_seconds", "smg_worker_registration_total", "smg_worker_registration_duration_seconds":
		default:
			continue
		}
		for _, s := range f.GetMetric() {
			key := f.GetName()[len("smg_"):]
			for i := range s.GetLabel() { // type before result, source before result
				key += " " + s.GetLabel()[len(s.GetLabel())-1-i].GetValue()
			}
			if n := int(s.GetCounter().GetValue()) + int(s.GetHistogram().GetSampleCount()); n > 0 {
				all[key] = n
			}
		}
	}
	return all
}

// telemetry.md section 5: how registrations end, by where the worker comes from, and how jobs do.
func TestChangesOfTheFleetAreCounted(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{})
	startup := Startup{Interval: time.Millisecond, Timeout: time.Millisecond}
	e := NewEnroller(NewRegistry(), DefaultSettings(), startup, nil, WithMetrics(m.Fleet))
	defer e.Close()
	up := func(labels map[string]string) Spec {
		s := NewSpec(startEngine(t, sglang("m")).URL)
		s.Labels = labels
		return s
	}
	w, err := e.Add(t.Context(), up(nil))
	require.NoError(t, err)
	_, err = e.Add(t.Context(), NewSpec(unreachable(t)))
	require.Error(t, err)
	require.NoError(t, e.Startup([]Spec{up(nil), NewSpec(unreachable(t))}).Run(t.Context(), func() {}))
	require.NoError(t, e.Upsert(t.Context(), up(map[string]string{labelPod: "uid"})))
	require.NoError(t, e.Upsert(t.Context(), up(nil)))
	require.NoError(t, e.Update(w.ID(), Patch{}))
	eventually(t, "all are registered, the patch is applied", func() bool {
		return e.registry.Len() == 4 && e.registry.ByID(w.ID()).Revision() == 1
	})
	w = e.registry.ByID(w.ID())
	w.SetStatus(NotReady)
	require.NoError(t, e.Remove(w.ID()))
	eventually(t, "one is removed", func() bool { return e.registry.Len() == 3 && !e.jobs.Busy(w.endpoint.Address) })
	require.Equal(t, map[string]int{
		"worker_registration_total api success": 1, "worker_registration_total api failed": 1,
		"worker_registration_total static success": 2, "worker_registration_total static failed": 1,
		"worker_registration_total kubernetes success": 1, "worker_registration_duration_seconds": 6,
		"jobs_total AddWorker success": 4, "jobs_total AddWorker failed": 2, "jobs_total UpdateWorker success": 1, "jobs_total RemoveWorker success": 1,
		"job_duration_seconds AddWorker": 6, "job_duration_seconds UpdateWorker": 1, "job_duration_seconds RemoveWorker": 1,
	}, fleetCounts(t, m))
}

// telemetry.md section 5: what is cut because the gateway stops has not failed, and what never ran has not ended.
func TestChangesThatAreCutAreNotCounted(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{})
	j := NewJobs(JobSettings{Capacity: 2, Concurrency: 1}, nil)
	j.metrics = m.Fleet
	running := make(chan struct{})
	require.NoError(t, j.Offer(jobAt("a", func(ctx context.Context, _ *Turn) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	})))
	<-running
	require.NoError(t, j.Offer(jobAt("b", func(context.Context, *Turn) error { return errors.New("never") })))
	j.Close()
	require.Empty(t, fleetCounts(t, m))
}
