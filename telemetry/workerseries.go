package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// workerVectors are the counters that have the label "worker".
type workerVectors struct {
	requests, transitions, outcomes, readmissions *prometheus.CounterVec

	heads *prometheus.HistogramVec
}

// maxTimed is how many workers have a histogram of their own, of thirty lines of a scrape each. Whoever comes later has none.
const maxTimed = 256

func newWorkerVectors(f *families) workerVectors {
	return workerVectors{
		requests:    f.counterVec("smg_worker_requests_total", "Requests sent to a worker, each attempt.", "worker", "model"),
		transitions: f.counterVec("smg_worker_cb_transitions_total", "Changes of state of a breaker.", "worker", "from", "to"),
		outcomes: f.counterVec("smg_worker_cb_outcomes_total",
			"Outcomes recorded with a breaker, disabled ones included.", "worker", "outcome"),
		readmissions: f.counterVec("smg_worker_cb_health_readmissions_total",
			"Open breakers that went half-open, before their time-out, because health probes brought the worker back to ready.", "worker"),
		heads: f.durationVec("smg_worker_request_duration_seconds",
			"Time from the sending of a request to a worker to the head of its answer; of the first 256 workers.", "worker"),
	}
}

// WorkerSeries are the counters of one registered worker. They belong to that registration: once it is forgotten, counting goes
// on without effect, and a stream that ends late brings no series back.
type WorkerSeries struct {
	Successes    prometheus.Counter // smg_worker_cb_outcomes_total{outcome="success"}
	Failures     prometheus.Counter // smg_worker_cb_outcomes_total{outcome="failure"}
	Readmissions prometheus.Counter // smg_worker_cb_health_readmissions_total

	owner       *WorkerMetrics
	url         string
	transitions [len(breakerStates)][len(breakerStates)]prometheus.Counter
	requests    cowMap[string, prometheus.Counter] // by model label
	timed       bool
	head        atomic.Pointer[prometheus.Observer] // made at the first answer

	mu        sync.Mutex // orders the making of a series and forgetting
	forgotten bool
}

// Add makes the counters of a worker that is registered under url, "@rank" included. They start at 0, also if a worker of that
// URL was there before; if that one has not been forgotten yet, it is now.
func (w *WorkerMetrics) Add(url string) *WorkerSeries {
	url = cleanLabel(url)
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.current[url]; old != nil {
		old.kill()
	}
	v := &w.perWorker
	s := &WorkerSeries{
		Successes:    v.outcomes.WithLabelValues(url, "success"),
		Failures:     v.outcomes.WithLabelValues(url, "failure"),
		Readmissions: v.readmissions.WithLabelValues(url),
		owner:        w, url: url, timed: len(w.current) < maxTimed,
	}
	for i, from := range breakerStates {
		for j, to := range breakerStates {
			if i != j {
				s.transitions[i][j] = v.transitions.WithLabelValues(url, from, to)
			}
		}
	}
	w.current[url] = s
	return s
}

// Forget deletes every series with the worker's label. It does nothing if the worker is forgotten already, or if another one
// has been added under the same URL since.
func (w *WorkerMetrics) Forget(s *WorkerSeries) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current[s.url] == s {
		delete(w.current, s.url)
		s.kill()
	}
}

// kill deletes the series. Under s.mu no request can make another one meanwhile.
func (s *WorkerSeries) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = true
	s.owner.families.forget(s.url)
}

// Transition counts a change of the breaker's state; from and to are two of the Breaker constants, not equal.
func (s *WorkerSeries) Transition(from, to int) { s.transitions[from][to].Inc() }

// Requests counts requests sent to the worker. model is the result of [Metrics.ModelLabel]. It allocates nothing once the
// series exists.
func (s *WorkerSeries) Requests(model string) prometheus.Counter {
	if c, ok := s.requests.get(model); ok {
		return c
	}
	label := modelLabelOf(s.owner.models, model)
	return s.requests.getOrMake(label, func(label string) (prometheus.Counter, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.forgotten {
			return detachedCounter(), true
		}
		return s.owner.perWorker.requests.WithLabelValues(s.url, label), true
	})
}

// Head observes the time from the sending of a request to the head of the worker's answer.
func (s *WorkerSeries) Head(d time.Duration) {
	if !s.timed {
		return
	}
	o := s.head.Load()
	if o == nil {
		o = s.firstHead()
	}
	(*o).Observe(d.Seconds())
}

// firstHead makes the histogram; what is observed of a worker that is forgotten is lost.
func (s *WorkerSeries) firstHead() *prometheus.Observer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.head.Load(); o != nil {
		return o
	}
	var o prometheus.Observer = prometheus.ObserverFunc(func(float64) {})
	if !s.forgotten {
		o = s.owner.perWorker.heads.WithLabelValues(s.url)
	}
	s.head.Store(&o)
	return &o
}
