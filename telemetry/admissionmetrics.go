package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// QueueOutcome says how a wait for admission ended.
type QueueOutcome int

// The outcomes.
const (
	QueueAdmitted  QueueOutcome = iota // it got a permit
	QueueTimedOut                      // it was answered 503
	QueueCancelled                     // its client has left
)

var queueOutcomes = [...]string{"admitted", "timeout", "cancelled"}

// AdmissionMetrics counts what the admission limiter does. How much it holds, and how many it has let in, is read from the limiter at
// the scrape.
type AdmissionMetrics struct {
	RejectedFull      prometheus.Counter // smg_admission_queue_rejected_total{reason="full"}: answered 429
	RejectedTimeout   prometheus.Counter // smg_admission_queue_rejected_total{reason="timeout"}: answered 503
	RateLimitRejected prometheus.Counter // smg_http_rate_limit_total{result="rejected"}: both of them

	waits  [len(queueOutcomes)]prometheus.Observer
	source atomic.Pointer[func() AdmissionSample]
}

// AdmissionSample is the state of the admission limiter.
type AdmissionSample struct {
	InFlight int64  // permits held; one is given back when the response body has ended
	Queued   int64  // requests that wait for a permit
	Admitted uint64 // requests that got a permit, since the start
}

func newAdmissionMetrics(f *families) *AdmissionMetrics {
	rejected := f.counterVec("smg_admission_queue_rejected_total",
		"Requests turned away because the admission queue was full, or because they waited in it too long.", "reason")
	a := &AdmissionMetrics{
		RejectedFull:    rejected.WithLabelValues("full"),
		RejectedTimeout: rejected.WithLabelValues("timeout"),
	}
	waits := f.durationVec("smg_admission_queue_wait_seconds", "How long requests waited for admission.", "outcome")
	for i, outcome := range queueOutcomes {
		a.waits[i] = waits.WithLabelValues(outcome)
	}
	f.gaugeFunc("smg_admission_inflight", "Admission permits held.", func() float64 { return float64(a.sample().InFlight) })
	f.gaugeFunc("smg_admission_queue_depth", "Requests that wait for admission.", func() float64 { return float64(a.sample().Queued) })
	a.rateLimit(f)
	return a
}

// rateLimit makes a family of which one series is counted and the other is read.
func (a *AdmissionMetrics) rateLimit(f *families) {
	const name, help = "smg_http_rate_limit_total", "Decisions of the admission limiter."
	result := func(r string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"result": r}}
	}
	a.RateLimitRejected = prometheus.NewCounter(result("rejected"))
	allowed := prometheus.NewCounterFunc(result("allowed"), func() float64 { return float64(a.sample().Admitted) })
	f.registry.MustRegister(a.RateLimitRejected, allowed)
	f.note("counter", name, help, []string{"result"})
}

// QueueWait is the histogram of the waits that ended so.
func (a *AdmissionMetrics) QueueWait(o QueueOutcome) prometheus.Observer { return a.waits[o] }

// SetSource says where the limiter's state is read from; without a source the gauges are 0. read must be quick.
func (a *AdmissionMetrics) SetSource(read func() AdmissionSample) { a.source.Store(&read) }

func (a *AdmissionMetrics) sample() AdmissionSample {
	if read := a.source.Load(); read != nil {
		return (*read)()
	}
	return AdmissionSample{}
}
