package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// AdmissionMetrics counts what the admission limiter does. How much it holds is read from the limiter at the scrape.
type AdmissionMetrics struct {
	RejectedFull    prometheus.Counter // smg_admission_queue_rejected_total{reason="full"}: answered 429
	RejectedTimeout prometheus.Counter // smg_admission_queue_rejected_total{reason="timeout"}: answered 503

	source atomic.Pointer[func() AdmissionSample]
}

// AdmissionSample is the state of the admission limiter.
type AdmissionSample struct {
	InFlight int64 // permits held; one is given back when the response body has ended
	Queued   int64 // requests that wait for a permit
}

func newAdmissionMetrics(f *families) *AdmissionMetrics {
	rejected := f.counterVec("smg_admission_queue_rejected_total",
		"Requests turned away because the admission queue was full, or because they waited in it too long.", "reason")
	a := &AdmissionMetrics{
		RejectedFull:    rejected.WithLabelValues("full"),
		RejectedTimeout: rejected.WithLabelValues("timeout"),
	}
	f.gaugeFunc("smg_admission_inflight", "Admission permits held.", func() float64 { return float64(a.sample().InFlight) })
	f.gaugeFunc("smg_admission_queue_depth", "Requests that wait for admission.", func() float64 { return float64(a.sample().Queued) })
	return a
}

// SetSource says where the limiter's state is read from; without a source both gauges are 0. read must be quick.
func (a *AdmissionMetrics) SetSource(read func() AdmissionSample) { a.source.Store(&read) }

func (a *AdmissionMetrics) sample() AdmissionSample {
	if read := a.source.Load(); read != nil {
		return (*read)()
	}
	return AdmissionSample{}
}
