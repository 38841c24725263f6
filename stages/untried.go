package stages

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Untried takes workers that an earlier attempt of the same request was sent to out of the candidates, unless nobody would be
// left. On a first attempt it does nothing.
func Untried() pipeline.Stage { return untried{} }

type untried struct{}

var (
	_ pipeline.Stage      = untried{}
	_ pipeline.Contracted = untried{}
)

func (untried) Name() string { return "untried" }

func (untried) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}
}

func (s untried) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	fresh := func(w *workers.Worker) bool { return !x.Tried(w) }
	if x.TriedCount() > 0 && x.Candidates.Any(fresh) {
		x.Candidates = x.Keep(fresh)
	}
	return next(x)
}
