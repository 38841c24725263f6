package telemetry

import (
	"iter"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// WorkerSample is the state of one registered worker at a scrape.
type WorkerSample struct {
	URL                  string // as registered, "@rank" included
	Type                 string // regular, prefill, decode or encode
	ConnectionMode       string // http, grpc or zmq
	Model                string // the first one it serves; "" if it is not known
	InFlight             int64  // requests that smg has in flight there: the number that policies compare
	Status               string // pending, ready, not_ready, failed or draining
	Runtime              string // the engine that it runs, such as sglang
	Ready                bool   // false: pending, not ready, failed or draining
	Overloaded           bool   // its last load report is over a ceiling
	Breaker              int    // one of the Breaker constants, as of now and not of the last request
	ConsecutiveFailures  int64
	ConsecutiveSuccesses int64
	HTTP2                bool
	KeysTracked          bool          // whether RoutingKeys means anything
	RoutingKeys          int64         // distinct routing keys in flight
	Engine               *EngineSample // its load report; nil if it has none
	ExpectedWait         *float64      // seconds: its score with the policies that go by load; nil if none of them has looked at it
}

// WorkerSource gives a sample of each registered worker. It is called at every scrape, maybe at the same time, and must be quick.
type WorkerSource = iter.Seq[WorkerSample]

// workerStates writes the gauges of all workers at the scrape. So requests do not write them, they cannot drift, and a
// worker that has left the registry leaves the scrape.
type workerStates struct {
	source atomic.Pointer[WorkerSource]
	models *labelSet

	pool, overloaded                         *prometheus.Desc
	active, health, http2, keys              *prometheus.Desc
	breaker, failuresInARow, successesInARow *prometheus.Desc
	status, over, info, wait                 *prometheus.Desc

	engines engineStates
}

func newWorkerStates(f *families, models *labelSet) *workerStates {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return f.desc("gauge", name, help, labels...)
	}
	s := &workerStates{
		models: models,
		pool:   gauge("smg_worker_pool_size", "Registered workers.", "worker_type", "connection_mode", "model"),
		overloaded: gauge("smg_workers_overloaded",
			"Workers whose last load report is over a ceiling.", "model"),
		active: gauge("smg_worker_requests_active", "Requests that smg has in flight at a worker.", "worker"),
		health: gauge("smg_worker_health", "1 if a worker is ready, 0 in any other state.", "worker"),
		http2:  gauge("smg_worker_http2", "1 if a worker is spoken to over HTTP/2.", "worker"),
		keys:   gauge("smg_worker_routing_keys_active", "Distinct routing keys in flight at a worker.", "worker"),
		breaker: gauge("smg_worker_cb_state",
			"State of a worker's breaker: 0 closed, 1 open, 2 half-open.", "worker"),
		failuresInARow:  gauge("smg_worker_cb_consecutive_failures", "Failures since the last success.", "worker"),
		successesInARow: gauge("smg_worker_cb_consecutive_successes", "Successes since the last failure.", "worker"),
	}
	s.status = gauge("smg_worker_status", "1 for the state that a worker is in; there is no series for the others.", "worker", "status")
	s.over = gauge("smg_worker_overloaded", "1 if the last load report of a worker is over a ceiling.", "worker")
	s.wait = gauge("smg_worker_expected_wait_seconds",
		"How long a request would wait at a worker, as the policies that go by load last computed it.", "worker")
	s.info = gauge("smg_worker_info", "Constant 1; the labels tell what a worker is.",
		"worker", "model", "worker_type", "connection_mode", "runtime")
	s.engines = newEngineStates(f)
	f.registry.MustRegister(s)
	return s
}

// Describe is part of [prometheus.Collector].
func (s *workerStates) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.pool, s.overloaded, s.active, s.health, s.http2, s.keys, s.breaker, s.failuresInARow, s.successesInARow,
		s.status, s.over, s.info, s.wait,
	} {
		ch <- d
	}
	for _, d := range s.engines.all() {
		ch <- d
	}
}

type poolKey struct{ workerType, connection, model string }

// Collect is part of [prometheus.Collector].
func (s *workerStates) Collect(ch chan<- prometheus.Metric) {
	source := s.source.Load()
	if source == nil {
		return
	}
	seen := make(map[string]bool)
	pools := make(map[poolKey]int)
	overloaded := make(map[string]int)
	for w := range *source {
		url := cleanLabel(w.URL)
		if seen[url] { // a series that is written twice would spoil the whole scrape
			continue
		}
		seen[url] = true
		model := modelLabelOf(s.models, w.Model)
		pools[poolKey{w.Type, w.ConnectionMode, model}]++
		overloaded[model] += int(oneIf(w.Overloaded)) // adds a 0 too: the series of a healthy model is 0, not missing
		s.collectWorker(ch, url, &w)
		ch <- prometheus.MustNewConstMetric(s.info, prometheus.GaugeValue, 1, url, model, w.Type, w.ConnectionMode, w.Runtime)
		s.engines.collect(ch, url, model, w.Engine)
	}
	for k, n := range pools {
		ch <- prometheus.MustNewConstMetric(s.pool, prometheus.GaugeValue, float64(n), k.workerType, k.connection, k.model)
	}
	for model, n := range overloaded {
		ch <- prometheus.MustNewConstMetric(s.overloaded, prometheus.GaugeValue, float64(n), model)
	}
}

func (s *workerStates) collectWorker(ch chan<- prometheus.Metric, url string, w *WorkerSample) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, url)
	}
	gauge(s.active, float64(w.InFlight))
	gauge(s.health, oneIf(w.Ready))
	gauge(s.http2, oneIf(w.HTTP2))
	gauge(s.over, oneIf(w.Overloaded))
	ch <- prometheus.MustNewConstMetric(s.status, prometheus.GaugeValue, 1, url, w.Status)
	gauge(s.breaker, float64(w.Breaker))
	gauge(s.failuresInARow, float64(w.ConsecutiveFailures))
	gauge(s.successesInARow, float64(w.ConsecutiveSuccesses))
	if w.KeysTracked {
		gauge(s.keys, float64(w.RoutingKeys))
	}
	if w.ExpectedWait != nil {
		gauge(s.wait, *w.ExpectedWait)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
