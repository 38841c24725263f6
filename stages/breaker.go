package stages

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Breaker heeds the workers' circuit breakers: on the way in it takes workers out whose breaker admits no request, on the way
// out it records how each leg ended. A worker is charged at most one failure in a request, however many attempts fail there;
// what the client or another leg caused is charged to nobody. An empty list goes on; the last filter answers for it.
func Breaker() pipeline.Stage { return breaker{} }

type breaker struct{}

var (
	_ pipeline.Stage      = breaker{}
	_ pipeline.Contracted = breaker{}
)

func (breaker) Name() string { return "breaker" }

func (breaker) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}
}

func (s breaker) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Candidates.Tripped() > 0 {
		s.explain(x)
		x.Candidates = x.Keep(func(w *workers.Worker) bool { return w.Breaker().Admits() })
	}
	defer s.record(x) // deferred: a panic behind this stage leaves its legs as they were when it happened
	return next(x)
}

func (s breaker) explain(x *pipeline.Exchange) {
	if x.Explain == nil {
		return
	}
	for _, w := range x.Candidates.All() {
		if !w.Breaker().Admits() {
			x.Explain.Leave(w, s.Name(), w.Breaker().State().String())
		}
	}
}

func (breaker) record(x *pipeline.Exchange) {
	if x.DryRun {
		return
	}
	for i := range x.Legs.Len() {
		leg := x.Legs.At(i)
		switch verdict(leg) {
		case workers.Succeeded:
			leg.Worker.Breaker().Success()
			if s := leg.Worker.Series(); s != nil {
				s.Successes.Inc()
			}
		case workers.Faulted:
			if !x.Charge(leg.Worker) {
				continue
			}
			leg.Worker.Breaker().Failure()
			if s := leg.Worker.Series(); s != nil {
				s.Failures.Inc()
			}
		}
	}
}

// verdict is what a leg's end says about its worker.
func verdict(leg *pipeline.Leg) workers.Outcome {
	switch leg.Outcome {
	case pipeline.Unreachable, pipeline.TimedOut, pipeline.Broken:
		return workers.Faulted
	case pipeline.Answered, pipeline.ClientLeft:
		if leg.Status != 0 { // else the client left before the worker had said anything
			return leg.Worker.Settings().Statuses.Outcome(leg.Status)
		}
	}
	return workers.Uncounted
}
