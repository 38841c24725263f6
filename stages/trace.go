package stages

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Tracer records the requests of a route as spans: one for the request, one for each leg of each attempt, and one for each stage
// that took some time of its own; shorter stages are events. Of one request in 64 it observes what the stages take as well. If t is
// nil, nothing is traced, and the client's trace context goes to workers as it came.
func Tracer(route string, t *telemetry.Tracing, m *telemetry.Metrics) pipeline.Tracer {
	method, path, _ := strings.Cut(route, " ")
	return &tracer{route: route, method: method, path: path, operation: operationOf(path), tracing: t, metrics: m}
}

type tracer struct {
	route, method, path string // "GET /workers/{worker_id}" and its parts
	operation           string // gen_ai.operation.name; "" for a route that is no inference
	tracing             *telemetry.Tracing
	metrics             *telemetry.Metrics
	arrived             atomic.Uint64
	host                lastHost
	stages              [longestChain]atomic.Pointer[stageSeries] // by the stage's place
}

// longestChain is for how many stages of a chain the tracer remembers what it needs; it finds it anew for those behind.
const longestChain = 32

// spanPrefix stands before a stage's name in the name of its span.
const spanPrefix = "smg."

// stageSeries is what the tracer needs of a stage.
type stageSeries struct {
	name     string // smg.policy
	short    telemetry.Moment
	duration prometheus.Observer
}

func (t *tracer) stage(i int, s pipeline.Stage) *stageSeries {
	if i < longestChain {
		if known := t.stages[i].Load(); known != nil && known.name[len(spanPrefix):] == s.Name() { // chains made of this one differ
			return known
		}
	}
	name := spanPrefix + strings.ToValidUTF8(s.Name(), "\uFFFD")
	made := &stageSeries{name, telemetry.NewMoment(name), t.metrics.Router.Stage("http", s.Name())}
	if i < longestChain {
		t.stages[i].Store(made)
	}
	return made
}

// exemplar names the request's trace, if it is recorded, to the stages that observe how long requests take.
var exemplar = pipeline.NewFact[telemetry.Exemplar]("exemplar")

// observedOf is of how many requests the stages of one are observed.
const observedOf = 64

func (t *tracer) Begin(x *pipeline.Exchange) (pipeline.Trace, bool) {
	if x.DryRun {
		return nil, false
	}
	observed := (t.arrived.Add(1)-1)%observedOf == 0
	if t.tracing == nil {
		if !observed {
			return nil, false
		}
		return stageTimes{t}, true
	}
	r := traces.Get().(*requestTrace)
	r.tracer, r.observed = t, observed
	t.tracing.StartServer(&r.request, t.route, x.Arrived, x.Client.Header)
	if r.request.Recording() {
		exemplar.Set(x, r.request.Exemplar())
	}
	return r, observed || r.request.Recording()
}

// stageTimes is the record of a request that is not traced: it observes stages, if it is told of any.
type stageTimes struct{ *tracer }

func (t stageTimes) Stage(_ *pipeline.Exchange, i int, s pipeline.Stage, _, _, self time.Duration) {
	t.stage(i, s).duration.Observe(self.Seconds())
}

func (stageTimes) Send(*pipeline.Exchange, *pipeline.Leg) []pipeline.Field { return nil }
func (stageTimes) Received(*pipeline.Exchange, *pipeline.Leg, []byte)      {}
func (stageTimes) IDs() (trace, span string)                               { return "", "" }
func (stageTimes) End(*pipeline.Exchange, error)                           {}

// requestTrace is the record of a request that is traced. It is used again.
type requestTrace struct {
	tracer   *tracer
	observed bool // the times of stages are
	request  telemetry.Span
	legs     [pipeline.MaxLegs]telemetry.Span
	part     telemetry.Span       // a stage's, while it is described
	model    telemetry.Attributes // what was asked of the model by the last leg, and answered: for the request as well
	answer   telemetry.Attributes // what was answered
	fields   [2]pipeline.Field    // what the last leg that was sent carries
	ended    time.Time            // when the last attempt ended; zero before
	failed   string               // how
}

var traces = sync.Pool{New: func() any { return new(requestTrace) }}

var (
	_ pipeline.Tracer = (*tracer)(nil)
	_ pipeline.Trace  = (*requestTrace)(nil)
	_ pipeline.Trace  = stageTimes{}
)

func (r *requestTrace) IDs() (trace, span string) { return r.request.IDs() }

// shown is how long a stage's own time is, at least, if the stage gets a span of its own.
const shown = 50 * time.Microsecond

func (r *requestTrace) Stage(x *pipeline.Exchange, i int, s pipeline.Stage, began, total, self time.Duration) {
	series := r.tracer.stage(i, s)
	if r.observed {
		series.duration.Observe(self.Seconds())
	}
	if !r.request.Recording() {
		return
	}
	at := x.Arrived.Add(began)
	if self < shown {
		r.request.Note(&series.short, at)
		return
	}
	r.request.StartPart(&r.part, series.name, at)
	r.part.Number("smg.stage.self_us", self.Microseconds())
	describeStage(&r.part, s.Name(), x)
	r.part.End(at.Add(total))
}

func (r *requestTrace) Send(x *pipeline.Exchange, leg *pipeline.Leg) []pipeline.Field {
	s := r.spanOf(x, leg)
	r.request.StartClient(s, r.tracer.nameOfLeg(x), leg.Sent)
	if s.Recording() {
		r.tracer.describeLeg(s, x, leg)
		if r.failed != "" {
			s.RetryEvent(leg.Sent, leg.Sent.Sub(r.ended), r.failed)
			r.failed = ""
		}
		r.model.Clear()
		r.tracer.describeInference(&r.model, x, leg)
		s.Add(&r.model)
	}
	parent, state := s.Propagate()
	r.fields = [2]pipeline.Field{{Name: "traceparent", Value: parent}, {Name: "tracestate", Value: state}}
	if state == "" {
		return r.fields[:1]
	}
	return r.fields[:]
}

func (r *requestTrace) Received(x *pipeline.Exchange, leg *pipeline.Leg, body []byte) {
	s := r.spanOf(x, leg)
	now := time.Now()
	if s.Recording() {
		describeAnswer(s, leg)
		r.answer.Clear()
		describeInferred(&r.answer, leg, body)
		s.Add(&r.answer)
		r.model.Add(&r.answer)
	}
	s.End(now)
	if cause := failureOf(leg); cause != "" {
		r.ended, r.failed = now, cause
	}
}

// spanOf is the span of a leg of the current attempt.
func (r *requestTrace) spanOf(x *pipeline.Exchange, leg *pipeline.Leg) *telemetry.Span {
	for i := range x.Legs.Len() {
		if x.Legs.At(i) == leg {
			return &r.legs[i]
		}
	}
	return new(telemetry.Span)
}

// End ends what is open, a leg that was left in a panic included, and gives the memory back.
func (r *requestTrace) End(x *pipeline.Exchange, err error) {
	now := time.Now()
	for i := range r.legs {
		r.legs[i].End(now)
	}
	if r.request.Recording() {
		r.tracer.describeRequest(&r.request, x, err)
		r.request.Add(&r.model)
	}
	r.request.End(now)
	for i := range r.legs {
		r.legs[i].Reset()
	}
	r.request.Reset()
	r.model.Clear()
	r.tracer, r.failed, r.fields = nil, "", [2]pipeline.Field{}
	traces.Put(r)
}
