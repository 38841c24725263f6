package main

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Reserve keeps workers for premium tenants. Requests of others never go to a reserved worker; if there is no other, the policy
// stage answers that nobody is available. A premium request goes to a reserved worker as long as there is one that may be chosen
// and that it was not sent to before, else to anybody.
//
// It stands behind the stages that leave out who cannot serve (available, breaker), so that "there is one" is true, and before
// untried. Cost: one pass over the candidates, no allocation.
func Reserve() pipeline.Stage { return reserve{} }

type reserve struct{}

var (
	_ pipeline.Stage      = reserve{}
	_ pipeline.Contracted = reserve{}
)

func (reserve) Name() string { return "reserve" }

func (reserve) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{tier, pipeline.Candidates}}
}

func (s reserve) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	isPremium := tier.Get(x) == premium
	if isPremium && !x.Candidates.Any(func(w *workers.Worker) bool { return reserved(w) && !x.Tried(w) }) {
		return next(x) // anybody is better than nobody
	}
	s.explain(x, isPremium)
	x.Candidates = x.Keep(func(w *workers.Worker) bool { return reserved(w) == isPremium })
	return next(x)
}

// explain tells whom the stage leaves out, to those who have asked.
func (s reserve) explain(x *pipeline.Exchange, isPremium bool) {
	if x.Explain == nil {
		return
	}
	for _, w := range x.Candidates.All() {
		if reserved(w) != isPremium {
			x.Explain.Leave(w, s.Name(), "not for tier "+tier.Get(x))
		}
	}
}

// reservedLabel is the label of a worker that only premium tenants use.
const reservedLabel = "reserved_for"

func reserved(w *workers.Worker) bool { return w.Spec().Labels[reservedLabel] == premium }
