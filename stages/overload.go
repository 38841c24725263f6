package stages

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Overload takes workers whose last load report is over a ceiling out of the candidates; one without a report never is. If
// nobody is left because every worker of the pool is overloaded, it sheds the request: 503 worker_overload_protection_shed,
// terminal, with Retry-After set to the poll interval of loads, the soonest moment at which a verdict can change.
//
// It is the last filter that can leave nobody, and answers for those before it, which only narrow: a list that is empty
// for any other reason is 503 no_available_workers, which may be retried. Cost: one pass over the pool, no allocation.
func Overload(pollInterval time.Duration, shed prometheus.Counter) pipeline.Stage {
	return &overload{pollInterval, shed}
}

type overload struct {
	pollInterval time.Duration
	shed         prometheus.Counter // smg_worker_overload_shed_total{stage="selection"}, resolved once
}

var (
	_ pipeline.Stage      = (*overload)(nil)
	_ pipeline.Contracted = (*overload)(nil)
)

func (*overload) Name() string { return "overload" }

func (*overload) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Model, pipeline.Pool, pipeline.Candidates}}
}

func (o *overload) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Pool.Overloaded() > 0 {
		o.explain(x)
		x.Candidates = x.Keep(func(w *workers.Worker) bool { return !w.Overloaded() })
	}
	if x.Candidates.Len() > 0 {
		return next(x)
	}
	if !everyOverloaded(x.Pool) {
		return pipeline.NoAvailableWorkers(x)
	}
	if !x.DryRun {
		o.shed.Inc()
	}
	return overloadShed(x.Asked, "All workers for model '%s' are overloaded", o.pollInterval)
}

func (o *overload) explain(x *pipeline.Exchange) {
	if x.Explain == nil {
		return
	}
	for _, w := range x.Candidates.All() {
		if w.Overloaded() {
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
