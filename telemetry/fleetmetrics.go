package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Where workers come from: the values of the label "source" of smg_worker_registration_total.
const (
	SourceStatic     = "static"     // the gateway was started with it
	SourceKubernetes = "kubernetes" // it is a pod
	SourceFile       = "file"       // the manifest of --discovery-file lists it
	SourceAPI        = "api"        // an operator, or a program, has added or replaced it
	SourceMesh       = "mesh"       // another gateway knows it
)

// FleetMetrics counts how changes of the fleet end.
type FleetMetrics struct {
	jobs          map[string]jobSeries // closed, like the one below
	registrations map[string]ended
	registration  prometheus.Observer
}

// ended counts what went well and what did not.
type ended struct{ success, failed prometheus.Counter }

type jobSeries struct {
	ended
	duration prometheus.Observer
}

func endedOf(v *prometheus.CounterVec, label string) ended {
	return ended{v.WithLabelValues(label, "success"), v.WithLabelValues(label, "failed")}
}

func (e ended) count(ok bool) {
	if ok {
		e.success.Inc()
		return
	}
	e.failed.Inc()
}

func newFleetMetrics(f *families) *FleetMetrics {
	jobs := f.counterVec("smg_jobs_total", "Changes of the fleet that have ended.", "type", "result")
	durations := f.durationVec("smg_job_duration_seconds", "Time that a change of the fleet took, from its start to its end.", "type")
	registrations := f.counterVec("smg_worker_registration_total",
		"Registrations of workers that have ended, by where the worker comes from.", "source", "result")
	m := &FleetMetrics{
		jobs: map[string]jobSeries{}, registrations: map[string]ended{},
		registration: f.durationVec("smg_worker_registration_duration_seconds",
			"Time from the moment a registration is asked for to its end.").WithLabelValues(),
	}
	for _, kind := range []string{"AddWorker", "UpdateWorker", "RemoveWorker"} {
		m.jobs[kind] = jobSeries{endedOf(jobs, kind), durations.WithLabelValues(kind)}
	}
	for _, source := range []string{SourceStatic, SourceKubernetes, SourceFile, SourceAPI, SourceMesh} {
		m.registrations[source] = endedOf(registrations, source)
	}
	return m
}

// Job counts a change of the fleet that has run to its end. One of a kind that is not known is not counted.
func (m *FleetMetrics) Job(kind string, took time.Duration, ok bool) {
	if s, known := m.jobs[kind]; known {
		s.count(ok)
		s.duration.Observe(took.Seconds())
	}
}

// Registration counts a registration that has ended. source is one of the Source constants; of any other it is not counted.
func (m *FleetMetrics) Registration(source string, took time.Duration, ok bool) {
	if s, known := m.registrations[source]; known {
		s.count(ok)
		m.registration.Observe(took.Seconds())
	}
}
