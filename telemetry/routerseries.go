package telemetry

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrorType is why a routed request failed, as the label error_type tells it.
type ErrorType int

// The error types.
const (
	ErrorNoWorkers  ErrorType = iota // nobody could serve it
	ErrorTimeout                     // 408, 504
	ErrorBackend                     // other 5xx
	ErrorValidation                  // 400
	ErrorInternal                    // the rest
)

var errorTypes = [...]string{"no_workers", "timeout", "backend_error", "validation_error", "internal_error"}

// String is the label value.
func (t ErrorType) String() string { return errorTypes[t] }

// ErrorTypeOf classifies a final response that is not 2xx. code is the code that the gateway minted, "" for a worker's answer:
// it tells a 503 of the gateway, which had nobody to send to, from a 503 of a worker.
func ErrorTypeOf(status int, code string) ErrorType {
	switch code {
	case "no_available_workers", "worker_overload_protection_shed", "no_compatible_pd_pair":
		return ErrorNoWorkers
	case "stream_error": // it broke behind a head that was good
		return ErrorBackend
	case "internal_error":
		return ErrorInternal
	}
	switch {
	case status == http.StatusNotFound:
		return ErrorNoWorkers
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return ErrorTimeout
	case status >= 500:
		return ErrorBackend
	case status == http.StatusBadRequest:
		return ErrorValidation
	}
	return ErrorInternal
}

// RouterSeries are the series of one model and endpoint. Counting allocates nothing.
type RouterSeries struct {
	Duration     prometheus.Observer // seconds from routing to the head of the final response; successful requests only
	InputTokens  prometheus.Counter  // prompt tokens of a usage object
	OutputTokens prometheus.Counter  // completion tokens of a usage object

	requests [2]prometheus.Counter // not streaming, streaming
	errors   [len(errorTypes)]prometheus.Counter
	attempts [2]prometheus.Observer // ok, failed; those of all models of the endpoint

	// Made at the first stream: an embeddings endpoint has none, and each is some thirty lines of a scrape.
	ttft, tpot, generation, clientTTFT, itl func() prometheus.Observer
}

func newRouterSeries(v *routerVectors, kind RouterKind, model, endpoint string) *RouterSeries {
	five := []string{kind.Router, kind.Backend, kind.Connection, model, endpoint}
	four := []string{kind.Router, kind.Backend, model, endpoint}
	s := &RouterSeries{
		Duration:     v.duration.WithLabelValues(five...),
		InputTokens:  v.tokens.WithLabelValues(append(four[:4:4], "input")...),
		OutputTokens: v.tokens.WithLabelValues(append(four[:4:4], "output")...),
	}
	for i, streaming := range []bool{false, true} {
		s.requests[i] = v.requests.WithLabelValues(append(five[:5:5], strconv.FormatBool(streaming))...)
	}
	for i, outcome := range []string{"ok", "failed"} {
		s.attempts[i] = v.attempts.WithLabelValues(endpoint, outcome)
	}
	for i, name := range errorTypes {
		s.errors[i] = v.errors.WithLabelValues(append(five[:5:5], name)...)
	}
	lazily := func(h *prometheus.HistogramVec) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return h.WithLabelValues(four...) })
	}
	s.ttft, s.tpot, s.generation = lazily(v.ttft), lazily(v.tpot), lazily(v.generation)
	s.clientTTFT = sync.OnceValue(func() prometheus.Observer { return v.clientTTFT.WithLabelValues(endpoint, model) })
	s.itl = sync.OnceValue(func() prometheus.Observer { return v.itl.WithLabelValues(kind.Router, model, endpoint) })
	return s
}

// Gap observes the seconds between two data events of a stream in a row.
func (s *RouterSeries) Gap() prometheus.Observer { return s.itl() }

// Requests is counted once for each request of a client, when its routing begins.
func (s *RouterSeries) Requests(streaming bool) prometheus.Counter {
	if streaming {
		return s.requests[1]
	}
	return s.requests[0]
}

// Errors is counted once for each request whose final response is not 2xx.
func (s *RouterSeries) Errors(t ErrorType) prometheus.Counter { return s.errors[t] }

// Stream records a stream that has ended: the times from dispatch to its first data event and to its end, and its output
// tokens, 0 if unknown. A first of 0 says that no event came; then there is nothing to record but the end. e is the request's.
func (s *RouterSeries) Stream(first, end time.Duration, tokens int64, e Exemplar) {
	e.Observe(s.generation(), end.Seconds())
	if first <= 0 {
		return
	}
	e.Observe(s.ttft(), first.Seconds())
	if tokens > 1 && end >= first {
		s.tpot().Observe((end - first).Seconds() / float64(tokens-1))
	}
}

// Attempts records how many attempts a request took that is over; 0 of one that was never tried is not recorded.
func (s *RouterSeries) Attempts(n int, failed bool) {
	if n <= 0 {
		return
	}
	if failed {
		s.attempts[1].Observe(float64(n))
		return
	}
	s.attempts[0].Observe(float64(n))
}

// ClientTTFT records how long a client waited for the first data event of its stream. e is the request's.
func (s *RouterSeries) ClientTTFT(d time.Duration, e Exemplar) {
	e.Observe(s.clientTTFT(), d.Seconds())
}

// Tokens adds what a usage object says; a number that is not known is 0 and changes nothing.
func (s *RouterSeries) Tokens(input, output int64) {
	if input > 0 {
		s.InputTokens.Add(float64(input))
	}
	if output > 0 {
		s.OutputTokens.Add(float64(output))
	}
}

// detachedCounter is a counter that no scrape shows, for what must not make a series.
func detachedCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "smg_detached_total"})
}
