package stages

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// WholeEngines takes data-parallel ranks out of the candidates, for requests whose body cannot carry the rank that they are for. If
// nobody but ranks serves the model the request is refused: 400 dp_aware_not_supported.
func WholeEngines() pipeline.Stage { return wholeEngines{} }

type wholeEngines struct{}

var (
	_ pipeline.Stage      = wholeEngines{}
	_ pipeline.Contracted = wholeEngines{}
)

func (wholeEngines) Name() string { return "whole_engines" }

func (wholeEngines) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Pool, pipeline.Candidates}}
}

func (s wholeEngines) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if !x.Pool.Any(isRank) {
		return next(x)
	}
	if x.Explain != nil {
		s.explain(x)
	}
	x.Candidates = x.Keep(isWhole)
	if x.Candidates.Len() == 0 {
		return &pipeline.Error{
			Status: http.StatusBadRequest, Code: "dp_aware_not_supported", Terminal: true,
			Message: "Only data-parallel ranks serve the model, and this route cannot tell them apart",
		}
	}
	x.Pool = workers.ListOf(append([]*workers.Worker(nil), x.Candidates.Members()...)...)
	return next(x)
}

func isRank(w *workers.Worker) bool { return w.Endpoint().URL != w.Endpoint().Base }

func isWhole(w *workers.Worker) bool { return !isRank(w) }

func (s wholeEngines) explain(x *pipeline.Exchange) {
	for _, w := range x.Candidates.All() {
		if isRank(w) {
			x.Explain.Leave(w, s.Name(), "a data-parallel rank")
		}
	}
}
