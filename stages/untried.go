package stages

import (
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/workers"
)

// Untried takes workers that an earlier attempt of the same request was sent to out of the candidates, unless nobody would be
// left. On a first attempt it does nothing.
//
// A worker that the request is pinned to (by manual, a sticky session or passthrough) has a second chance: the second attempt may go
// there again, unless the first has ended in the worker's 500, or the worker has asked for more time (Retry-After) than has passed. One
// that the client has asked for by name is never taken out.
//
// When everyone was tried, those who have asked for more time are taken out, again unless nobody would be left.
func Untried() pipeline.Stage { return untried{} }

type untried struct{}

var (
	_ pipeline.Stage      = untried{}
	_ pipeline.Contracted = untried{}
)

// refused is the worker whose answer was a 500.
var refused = pipeline.NewFact[*workers.Worker]("refused")

func (untried) Name() string { return "untried" }

func (untried) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}
}

func (s untried) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.TriedCount() > 0 {
		s.narrow(x)
	}
	err := next(x)
	if leg := x.Legs.Last(); leg != nil && leg.Status == http.StatusInternalServerError {
		refused.Set(x, leg.Worker)
	}
	return err
}

func (s untried) narrow(x *pipeline.Exchange) {
	again := secondChance(x)
	fresh := func(w *workers.Worker) bool { return !x.Tried(w) || w == again }
	if !x.Candidates.Any(fresh) {
		keepRested(x)
		return
	}
	if x.Explain != nil {
		s.explain(x, fresh)
	}
	x.Candidates = x.Keep(fresh)
}

// secondChance is the worker that may be tried again although others are left; nil if none may.
func secondChance(x *pipeline.Exchange) *workers.Worker {
	pin := policy.Pinned.Get(x)
	if pin.Only || x.Number == 2 && pin.Worker != refused.Get(x) && rested(x, pin.Worker, time.Now()) {
		return pin.Worker
	}
	return nil
}

// keepRested takes out who has asked for more time.
func keepRested(x *pipeline.Exchange) {
	if len(respites.Get(x)) == 0 {
		return
	}
	now := time.Now()
	ready := func(w *workers.Worker) bool { return rested(x, w, now) }
	if x.Candidates.Any(ready) {
		x.Candidates = x.Keep(ready)
	}
}

func (s untried) explain(x *pipeline.Exchange, fresh func(*workers.Worker) bool) {
	for _, w := range x.Candidates.All() {
		if !fresh(w) {
			x.Explain.Leave(w, s.Name(), "tried by this request already")
		}
	}
}
