package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// PathOther is the path of requests that no route matches.
const PathOther = LabelOther

// Phase says how far a request had come when its client left.
type Phase int

// The phases.
const (
	PhaseQueued     Phase = iota // waiting for admission
	PhaseBeforeHead              // admitted, no response head yet
	PhaseStreaming               // response head sent
)

var phases = [...]string{"queued", "before_head", "streaming"}

// HTTPMetrics counts requests on the main listener.
type HTTPMetrics struct {
	HeaderTimeouts prometheus.Counter // smg_http_connection_timeouts_total{timeout="header_read"}
	IdleTimeouts   prometheus.Counter // smg_http_connection_timeouts_total{timeout="idle"}

	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	responses   *prometheus.CounterVec
	disconnects [len(endpoints)][len(phases)]prometheus.Counter
	overhead    *prometheus.HistogramVec
	overheads   [len(endpoints)]atomic.Pointer[prometheus.Observer]
	codes       *labelSet
	routes      cowMap[string, *RouteMetrics]
}

func newHTTPMetrics(f *families, codes *labelSet) *HTTPMetrics {
	timeouts := f.counterVec("smg_http_connection_timeouts_total",
		"Client connections closed because no complete request head came in time, or because they were idle.", "timeout")
	h := &HTTPMetrics{
		HeaderTimeouts: timeouts.WithLabelValues("header_read"),
		IdleTimeouts:   timeouts.WithLabelValues("idle"),
		requests:       f.counterVec("smg_http_requests_total", "Requests that arrived.", "method", "path"),
		durations: f.durationVec("smg_http_request_duration_seconds",
			"Time from the arrival of a request to the head of its response.", "method", "path"),
		responses: f.counterVec("smg_http_responses_total",
			"Responses whose body has gone out. 499 is a client that left; error_code is empty unless the gateway made the error.",
			"path", "status_code", "error_code"),
		overhead: f.histogramVec("smg_gateway_overhead_seconds",
			"Time to the head of a response that was neither the worker's nor the client's, nor spent waiting for admission or for another attempt; "+
				"of one request in 64.", stageBuckets, "endpoint"),
		codes: codes,
	}
	gone := f.counterVec("smg_client_disconnects_total", "Requests whose client left before the end.", "endpoint", "phase")
	for i, e := range endpoints {
		for j, p := range phases {
			h.disconnects[i][j] = gone.WithLabelValues(e, p)
		}
	}
	return h
}

// ClientDisconnects counts clients that left in a phase of a request to an endpoint.
func (h *HTTPMetrics) ClientDisconnects(endpoint string, p Phase) prometheus.Counter {
	return h.disconnects[endpointIndex(endpoint)][p]
}

// Overhead observes the seconds that the gateway itself added to the time to a response's head.
func (h *HTTPMetrics) Overhead(endpoint string) prometheus.Observer {
	i := endpointIndex(endpoint)
	if o := h.overheads[i].Load(); o != nil {
		return *o
	}
	o := h.overhead.WithLabelValues(endpoints[i])
	h.overheads[i].Store(&o)
	return o
}

// Route gives the handle for a route, always the same one. path is the template that the route was registered with, such as
// "/v1/responses/{response_id}", or [PathOther]; never the path of a request.
func (h *HTTPMetrics) Route(path string) *RouteMetrics {
	return h.routes.getOrMake(path, func(path string) (*RouteMetrics, bool) { return h.newRoute(cleanLabel(path)), true })
}

func (h *HTTPMetrics) newRoute(path string) *RouteMetrics {
	return &RouteMetrics{http: h, path: path, responses: responseCounters{
		codes: h.codes,
		make: func(status, code string) prometheus.Counter {
			return h.responses.WithLabelValues(path, status, code)
		},
	}}
}

// RouteMetrics are the series of one route. Its methods allocate nothing once a series exists.
type RouteMetrics struct {
	http      *HTTPMetrics
	path      string
	methods   [len(methods)]atomic.Pointer[methodSeries]
	responses responseCounters
}

type methodSeries struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

func (r *RouteMetrics) of(method string) *methodSeries {
	i := methodIndex(method)
	if s := r.methods[i].Load(); s != nil {
		return s
	}
	// Two that come at once make two structs around the same series.
	s := &methodSeries{
		requests: r.http.requests.WithLabelValues(methods[i], r.path),
		duration: r.http.durations.WithLabelValues(methods[i], r.path),
	}
	r.methods[i].Store(s)
	return s
}

// Requests is counted when a request arrives.
func (r *RouteMetrics) Requests(method string) prometheus.Counter { return r.of(method).requests }

// Duration observes the seconds from the arrival of a request to the head of its response.
func (r *RouteMetrics) Duration(method string) prometheus.Observer { return r.of(method).duration }

// Response is counted when the body has gone out. code is a code that the gateway itself minted, never one from a worker's
// header; "" for a worker's own answer.
func (r *RouteMetrics) Response(status int, code string) prometheus.Counter {
	return r.responses.get(status, code)
}
