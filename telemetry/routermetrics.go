package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// RouterKind is the family of workers that a request is routed to.
type RouterKind struct {
	Router     string // label router_type: http, grpc or openai
	Backend    string // label backend_type: regular, pd or external
	Connection string // label connection_mode: http, grpc or websocket
}

// RegularHTTP is the kind of plain HTTP workers.
var RegularHTTP = RouterKind{Router: "http", Backend: "regular", Connection: "http"}

// RouterMetrics counts requests that are routed, once for each request of a client however many attempts it takes.
type RouterMetrics struct {
	BuffersReleased prometheus.Counter // smg_router_request_buffers_released_early_bytes_total

	vectors    routerVectors
	bodyPaths  map[[2]string]prometheus.Counter // closed, so never written after newRouterMetrics
	models     *labelSet
	kinds      cowMap[RouterKind, *kindSeries]
	regular    *kindSeries
	upstream   cowMap[string, *responseCounters]
	codes      *labelSet
	stages     cowMap[[2]string, prometheus.Observer]
	upstreamBy *prometheus.CounterVec
	resends    *prometheus.CounterVec
	stagesBy   *prometheus.HistogramVec
	blocked    [len(endpoints)]prometheus.Counter
}

type routerVectors struct {
	requests, errors, tokens *prometheus.CounterVec
	duration                 *prometheus.HistogramVec
	ttft, tpot, generation   *prometheus.HistogramVec
	clientTTFT, attempts     *prometheus.HistogramVec
	itl                      *prometheus.HistogramVec
}

// Body paths: the values of the labels of smg_router_request_body_path_total.
var (
	bufferedReasons = []string{
		"routing_key_override", "policy_needs_text", "model_ambiguous", "worker_mutates_body", "wasm_request_hook",
		"no_content_length", "no_available_worker", "model_selection", "retryable", "pd", "grpc", "openai",
	}
	streamedReasons = []string{"retry_forfeited", "pure_forward"}
)

func newRouterMetrics(f *families, models, codes *labelSet) *RouterMetrics {
	r := &RouterMetrics{
		vectors: newRouterVectors(f), models: models, codes: codes,
		BuffersReleased: f.counter("smg_router_request_buffers_released_early_bytes_total",
			"Bytes of request bodies that were freed at dispatch."),
		upstreamBy: f.counterVec("smg_router_upstream_responses_total",
			"Ends of attempts. Failures that the gateway saw itself have its code, answers of workers an empty one.",
			"router_type", "status_code", "error_code"),
		resends: f.counterVec("smg_router_upstream_send_retries_total",
			"Requests sent a second time on a fresh connection because the first was closed before any answer.", "router_type"),
		stagesBy: f.histogramVec("smg_router_stage_duration_seconds", "Time spent in a stage itself, without the stages behind it.",
			stageBuckets, "router_type", "stage"),
	}
	r.bodyPaths = newBodyPaths(f)
	blocked := f.counterVec("smg_stream_backpressure_seconds_total", "Time that streams stood still because their clients did not read.", "endpoint")
	for i, endpoint := range endpoints {
		r.blocked[i] = blocked.WithLabelValues(endpoint)
	}
	r.resends.WithLabelValues(RegularHTTP.Router)
	r.regular = r.kind(RegularHTTP)
	return r
}

func newRouterVectors(f *families) routerVectors {
	five := []string{"router_type", "backend_type", "connection_mode", "model", "endpoint"}
	four := []string{"router_type", "backend_type", "model", "endpoint"}
	return routerVectors{
		requests: f.counterVec("smg_router_requests_total", "Requests that reached routing.", append(five[:5:5], "streaming")...),
		duration: f.durationVec("smg_router_request_duration_seconds",
			"Time from routing to the head of the final response, of successful requests.", five...),
		errors: f.counterVec("smg_router_request_errors_total",
			"Requests whose final response is not 2xx.", append(five[:5:5], "error_type")...),
		ttft: f.durationVec("smg_router_ttft_seconds",
			"Time from dispatch to the first data event of a stream.", four...),
		tpot: f.durationVec("smg_router_tpot_seconds",
			"Time per output token after the first, of streams with more than one.", four...),
		generation: f.durationVec("smg_router_generation_duration_seconds",
			"Time from dispatch to the end of a stream.", four...),
		clientTTFT: f.durationVec("smg_client_ttft_seconds",
			"Time from the arrival of a request to the first data event of its stream: what its client waits.", "endpoint", "model"),
		itl: f.histogramVec("smg_router_itl_seconds",
			"Time between two data events of a stream in a row; of one request in 64.", itlBuckets, "router_type", "model", "endpoint"),
		attempts: f.histogramVec("smg_router_attempts", "Attempts of a request.", attemptBuckets, "endpoint", "outcome"),
		tokens:   f.counterVec("smg_router_tokens_total", "Tokens that workers reported as usage.", append(four[:4:4], "token_type")...),
	}
}

func newBodyPaths(f *families) map[[2]string]prometheus.Counter {
	v := f.counterVec("smg_router_request_body_path_total",
		"Inference requests by how their body was handled and why.", "path", "reason")
	paths := make(map[[2]string]prometheus.Counter)
	for path, reasons := range map[string][]string{"buffered": bufferedReasons, "streamed": streamedReasons} {
		for _, reason := range reasons {
			paths[[2]string{path, reason}] = v.WithLabelValues(path, reason)
		}
	}
	return paths
}

// BodyPath counts requests by how their body was handled: path is buffered or streamed, reason one of the sheet's list. For a
// pair that is not in the list it returns a counter that no scrape shows.
func (r *RouterMetrics) BodyPath(path, reason string) prometheus.Counter {
	if c := r.bodyPaths[[2]string{path, reason}]; c != nil {
		return c
	}
	return detachedCounter()
}

// Upstream counts ends of attempts by status. code is a code that the gateway itself minted, "" for a worker's own answer.
func (r *RouterMetrics) Upstream(router string, status int, code string) prometheus.Counter {
	return r.upstream.getOrMake(router, func(router string) (*responseCounters, bool) {
		return &responseCounters{codes: r.codes, make: func(status, code string) prometheus.Counter {
			return r.upstreamBy.WithLabelValues(router, status, code)
		}}, true
	}).get(status, code)
}

// SendRetries counts one-shot resends after a failure of the transport before any response. The caller keeps the handle.
func (r *RouterMetrics) SendRetries(router string) prometheus.Counter {
	return r.resends.WithLabelValues(router)
}

// Backpressure adds up the seconds in which streams waited for their clients.
func (r *RouterMetrics) Backpressure(endpoint string) prometheus.Counter {
	return r.blocked[endpointIndex(endpoint)]
}

// Stage observes seconds spent in a stage itself; stage is the stage's Name.
func (r *RouterMetrics) Stage(router, stage string) prometheus.Observer {
	return r.stages.getOrMake([2]string{router, stage}, func(k [2]string) (prometheus.Observer, bool) {
		return r.stagesBy.WithLabelValues(k[0], cleanLabel(k[1])), true
	})
}

// Series gives the handle for requests of a model to an endpoint of plain HTTP workers, always the same one. model is the
// result of [Metrics.ModelLabel]. It takes no lock and allocates nothing once the handle exists.
func (r *RouterMetrics) Series(model, endpoint string) *RouterSeries {
	return r.regular.series(model, endpoint)
}

// SeriesOf is Series for another kind of workers.
func (r *RouterMetrics) SeriesOf(kind RouterKind, model, endpoint string) *RouterSeries {
	return r.kind(kind).series(model, endpoint)
}

func (r *RouterMetrics) kind(kind RouterKind) *kindSeries {
	return r.kinds.getOrMake(kind, func(kind RouterKind) (*kindSeries, bool) {
		return &kindSeries{router: r, kind: kind}, true
	})
}

// kindSeries finds series in two steps, so that a new pair copies a map of models and not one of all pairs.
type kindSeries struct {
	router *RouterMetrics
	kind   RouterKind
	models cowMap[string, *modelSeries]
}

type modelSeries [len(endpoints)]atomic.Pointer[RouterSeries]

func (k *kindSeries) series(model, endpoint string) *RouterSeries {
	i := endpointIndex(endpoint)
	if row, ok := k.models.get(model); ok {
		if s := row[i].Load(); s != nil {
			return s
		}
	}
	label := modelLabelOf(k.router.models, model) // bounds the map as well, should a caller pass a name instead of a label
	row := k.models.getOrMake(label, func(string) (*modelSeries, bool) { return new(modelSeries), true })
	s := row[i].Load()
	if s == nil {
		row[i].CompareAndSwap(nil, newRouterSeries(&k.router.vectors, k.kind, label, endpoints[i]))
		s = row[i].Load()
	}
	return s
}
