package telemetry

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Worker types: the values of the label "worker_type".
const (
	WorkerRegular = "regular"
	WorkerPrefill = "prefill"
	WorkerDecode  = "decode"
	WorkerEncode  = "encode"
)

// States of a worker's breaker: the values of smg_worker_cb_state.
const (
	BreakerClosed = iota
	BreakerOpen
	BreakerHalfOpen
)

var (
	workerTypes   = []string{WorkerRegular, WorkerPrefill, WorkerDecode, WorkerEncode}
	breakerStates = [...]string{"closed", "open", "half_open"}
)

// ShedStage is where a request met the overload protection.
type ShedStage int

// The places.
const (
	ShedSelection   ShedStage = iota // no candidate is left
	ShedDispatch                     // the chosen worker went over its ceiling meanwhile
	ShedPDAdmission                  // the window of a decode worker is full
)

var shedStages = [...]string{"selection", "dispatch", "pd_admission"}

// WorkerMetrics counts attempts by worker. States of workers are read from their owner at the scrape ([WorkerMetrics.SetSource]).
type WorkerMetrics struct {
	families   *families
	models     *labelSet
	perWorker  workerVectors
	selections *prometheus.CounterVec
	errors     *prometheus.CounterVec
	checks     map[healthKey]prometheus.Counter // closed, like the maps below
	retries    map[retryKey]retryCounters
	backoff    *prometheus.HistogramVec
	sheds      [len(shedStages)]prometheus.Counter
	fallbacks  [len(shedStages)]prometheus.Counter
	selected   cowMap[selectionKey, prometheus.Counter]
	failed     cowMap[[3]string, prometheus.Counter]
	states     *workerStates

	mu      sync.Mutex
	current map[string]*WorkerSeries // by URL; orders adding and forgetting
}

type (
	healthKey struct {
		workerType string
		ok         bool
	}
	retryKey      struct{ workerType, endpoint string }
	retryCounters struct{ retries, exhausted prometheus.Counter }
	selectionKey  struct{ workerType, connection, model, policy string }
)

func newWorkerMetrics(f *families, models *labelSet) *WorkerMetrics {
	w := &WorkerMetrics{
		families: f, models: models, current: make(map[string]*WorkerSeries), perWorker: newWorkerVectors(f),
		selections: f.counterVec("smg_worker_selection_total", "Workers selected by a policy.",
			"worker_type", "connection_mode", "model", "policy"),
		errors: f.counterVec("smg_worker_errors_total", "Attempts that ended in a 5xx or a transport error.",
			"worker_type", "connection_mode", "error_type"),
		backoff: f.histogramVec("smg_worker_retry_backoff_seconds",
			"Planned delay before a retry; attempt 1 is the first retry.", backoffBuckets, "attempt"),
	}
	w.checks = newHealthChecks(f)
	w.retries = newRetries(f)
	sheds := f.counterVec("smg_worker_overload_shed_total", "Requests turned away because every worker was overloaded.", "stage")
	fallbacks := f.counterVec("smg_worker_overload_fallback_total",
		"Requests let through to the least loaded worker although every worker was overloaded.", "stage")
	for i, stage := range shedStages {
		w.sheds[i], w.fallbacks[i] = sheds.WithLabelValues(stage), fallbacks.WithLabelValues(stage)
	}
	w.states = newWorkerStates(f, models)
	return w
}

func newHealthChecks(f *families) map[healthKey]prometheus.Counter {
	v := f.counterVec("smg_worker_health_checks_total", "Health probes.", "worker_type", "result")
	checks := make(map[healthKey]prometheus.Counter)
	for _, t := range workerTypes {
		checks[healthKey{t, true}] = v.WithLabelValues(t, "success")
		checks[healthKey{t, false}] = v.WithLabelValues(t, "failure")
	}
	return checks
}

func newRetries(f *families) map[retryKey]retryCounters {
	again := f.counterVec("smg_worker_retries_total", "Attempts after the first.", "worker_type", "endpoint")
	spent := f.counterVec("smg_worker_retries_exhausted_total",
		"Requests whose final response could still have been retried.", "worker_type", "endpoint")
	all := make(map[retryKey]retryCounters)
	for _, t := range workerTypes {
		for _, e := range endpoints {
			all[retryKey{t, e}] = retryCounters{again.WithLabelValues(t, e), spent.WithLabelValues(t, e)}
		}
	}
	return all
}

// HealthChecks counts probes of workers of a type by their result.
func (w *WorkerMetrics) HealthChecks(workerType string, ok bool) prometheus.Counter {
	if c := w.checks[healthKey{workerType, ok}]; c != nil {
		return c
	}
	return detachedCounter()
}

// Retries counts attempts after the first. endpoint is one of the Endpoint constants.
func (w *WorkerMetrics) Retries(workerType, endpoint string) prometheus.Counter {
	return w.retry(workerType, endpoint).retries
}

// RetriesExhausted counts requests whose final response could still have been retried, retries turned off included.
func (w *WorkerMetrics) RetriesExhausted(workerType, endpoint string) prometheus.Counter {
	return w.retry(workerType, endpoint).exhausted
}

func (w *WorkerMetrics) retry(workerType, endpoint string) retryCounters {
	if c, ok := w.retries[retryKey{workerType, endpoint}]; ok {
		return c
	}
	if c, ok := w.retries[retryKey{workerType, EndpointOther}]; ok {
		return c
	}
	return retryCounters{detachedCounter(), detachedCounter()}
}

// Backoff observes the planned delay in seconds before a retry; retry is 1 for the first one. From 10 on they share a series.
func (w *WorkerMetrics) Backoff(retry int) prometheus.Observer {
	if retry >= 10 {
		return w.backoff.WithLabelValues("10+")
	}
	return w.backoff.WithLabelValues(strconv.Itoa(max(1, retry)))
}

// Sheds counts requests that the overload protection turned away, each once.
func (w *WorkerMetrics) Sheds(s ShedStage) prometheus.Counter { return w.sheds[s] }

// OverloadFallbacks counts requests that it let pass to the least loaded of workers that are all over their ceilings.
func (w *WorkerMetrics) OverloadFallbacks(s ShedStage) prometheus.Counter { return w.fallbacks[s] }

// Selections counts selections by a policy. model is the result of [Metrics.ModelLabel]. It allocates nothing once the series exists.
func (w *WorkerMetrics) Selections(workerType, connection, model, policy string) prometheus.Counter {
	key := selectionKey{workerType, connection, model, policy}
	if c, ok := w.selected.get(key); ok {
		return c
	}
	key.model = modelLabelOf(w.models, model) // bounds the map as well, should a caller pass a name instead of a label
	return w.selected.getOrMake(key, func(k selectionKey) (prometheus.Counter, bool) {
		return w.selections.WithLabelValues(k.workerType, k.connection, k.model, cleanLabel(k.policy)), true
	})
}

// Errors counts attempts that ended in a 5xx or a transport error: timeout or not.
func (w *WorkerMetrics) Errors(workerType, connection string, timeout bool) prometheus.Counter {
	kind := ErrorBackend
	if timeout {
		kind = ErrorTimeout
	}
	key := [3]string{workerType, connection, kind.String()}
	if c, ok := w.failed.get(key); ok {
		return c
	}
	return w.failed.getOrMake(key, func(k [3]string) (prometheus.Counter, bool) {
		return w.errors.WithLabelValues(k[0], k[1], k[2]), true
	})
}

// SetSource says where the states of the registered workers are read from at the scrape. See [WorkerSample].
func (w *WorkerMetrics) SetSource(workers WorkerSource) { w.states.source.Store(&workers) }
