package workers

import (
	"context"
	"errors"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// WithMetrics has an enroller count how its jobs and registrations end.
func WithMetrics(m *telemetry.FleetMetrics) EnrolOption { return func(e *Enroller) { e.metrics = m } }

// The labels by which a discovery knows its workers again: of a pod, and of an entry of a file.
const (
	labelPod      = "smg.ai/pod-uid"
	labelProvider = "smg.ai/discovery-provider"
)

// sourceOf is where a worker comes from that is added or replaced without an operator.
func sourceOf(s *Spec) string {
	switch {
	case s.Labels[labelPod] != "":
		return telemetry.SourceKubernetes
	case s.Labels[labelProvider] == telemetry.SourceFile:
		return telemetry.SourceFile
	}
	return telemetry.SourceStatic
}

// settled counts a registration that has ended. One that was given up, because the gateway stops or the worker is removed, has not.
func (e *Enroller) settled(ctx context.Context, n *enrolment, err error) {
	if e.metrics != nil && (err == nil || !errors.Is(ctx.Err(), context.Canceled)) {
		e.metrics.Registration(n.source, time.Since(n.asked), err == nil)
	}
}

// settled counts a job that has ended, unless it was cut because the gateway stops.
func (j *Jobs) settled(job *Job, began time.Time, err error) {
	if j.metrics != nil && (err == nil || j.ctx.Err() == nil) {
		j.metrics.Job(job.Kind, time.Since(began), err == nil)
	}
}
