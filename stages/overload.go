package stages

import (
	"fmt"
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// Overload takes workers whose last load report is over a ceiling out of the candidates; one without a report never is. If
// nobody is left because every worker of the pool is overloaded, it sheds the request: 503 worker_overload_protection_shed,
// terminal, with Retry-After set to the poll interval of loads, the soonest moment at which a verdict can change. With fallback
// it lets the request pass to the least loaded of those that are left out for nothing else, if there is one.
//
// It is the last filter that can leave nobody, and answers for those before it, which only narrow: a list that is empty
// for any other reason is 503 no_available_workers, which may be retried. Cost: one pass over the pool, no allocation.
func Overload(loads *workers.LoadMonitor, m *telemetry.WorkerMetrics, fallback bool) pipeline.Stage {
	return &overload{loads: loads, metrics: m, fallback: fallback}
}

type overload struct {
	loads    *workers.LoadMonitor
	metrics  *telemetry.WorkerMetrics
	fallback bool
}

var (
	_ pipeline.Stage      = (*overload)(nil)
	_ pipeline.Contracted = (*overload)(nil)
)

func (*overload) Name() string { return "overload" }

func (o *overload) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Model, pipeline.Pool, pipeline.Candidates},
		Uses:  []pipeline.Dependency{o.loads}, // a chain without this stage does not start the monitor for it
	}
}

func (o *overload) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Pool.Overloaded() > 0 {
		if least := o.leastLoaded(x); least != nil {
			return o.pass(x, least, next)
		}
		o.explain(x, nil)
		x.Candidates = x.Keep(func(w *workers.Worker) bool { return !w.Overloaded() })
	}
	if x.Candidates.Len() > 0 {
		return next(x)
	}
	if !everyOverloaded(x.Pool) {
		return pipeline.NoAvailableWorkers(x)
	}
	if !x.DryRun {
		o.metrics.Sheds(telemetry.ShedSelection).Inc()
	}
	return overloadShed(x.Asked, "All workers for model '%s' are overloaded", o.loads.Interval())
}

// fallenBack is the worker that a request was let through to although it is overloaded.
var fallenBack = pipeline.NewFact[*workers.Worker]("overload_fallback")

func (o *overload) pass(x *pipeline.Exchange, least *workers.Worker, next pipeline.Next) error {
	if !x.DryRun {
		o.metrics.OverloadFallbacks(telemetry.ShedSelection).Inc()
	}
	o.explain(x, least)
	fallenBack.Set(x, least)
	x.Candidates = x.Keep(func(w *workers.Worker) bool { return w == least })
	return next(x)
}

// leastLoaded is the candidate that a fallback lets through: the one with the fewest requests, reported or in flight from here
// since, and of several the one whose KV cache is the emptiest; one that is not known may be full. nil if there is no fallback, or no need of one.
func (o *overload) leastLoaded(x *pipeline.Exchange) (least *workers.Worker) {
	if !o.fallback || !everyOverloaded(x.Pool) {
		return nil
	}
	var fewest int64
	var usage float64
	for _, w := range x.Candidates.All() {
		requests, used := w.InFlight(), 1.0
		if r := w.Report(); r != nil {
			requests = max(requests, r.Running+r.Waiting)
			if r.UsageKnown {
				used = r.Usage
			}
		}
		if least == nil || requests < fewest || requests == fewest && used < usage {
			least, fewest, usage = w, requests, used
		}
	}
	return least
}

func (o *overload) explain(x *pipeline.Exchange, but *workers.Worker) {
	if x.Explain == nil {
		return
	}
	for _, w := range x.Candidates.All() {
		if w.Overloaded() && w != but {
			x.Explain.Leave(w, o.Name(), "overloaded")
		}
	}
}

func overloadShed(model, format string, retryAfter time.Duration) *pipeline.Error {
	if model == "" {
		model = "unknown"
	}
	return &pipeline.Error{
		Status: http.StatusServiceUnavailable, Code: "worker_overload_protection_shed",
		Message: fmt.Sprintf(format, model), Terminal: true, RetryAfter: max(retryAfter, time.Second),
	}
}

// everyOverloaded leaves draining workers out: they are no alternative to wait for, and must not turn a shed into a plain 503.
func everyOverloaded(pool workers.List) bool {
	serving := func(w *workers.Worker) bool { return !w.Draining() }
	spare := func(w *workers.Worker) bool { return !w.Draining() && !w.Overloaded() }
	return pool.Any(serving) && !pool.Any(spare)
}
