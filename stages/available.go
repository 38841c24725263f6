package stages

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Available takes workers that are not ready out of the candidates: pending, unhealthy, draining and cordoned ones. An empty list goes
// on; the last filter answers for it.
func Available() pipeline.Stage { return available{} }

type available struct{}

var (
	_ pipeline.Stage      = available{}
	_ pipeline.Contracted = available{}
)

func (available) Name() string { return "available" }

func (available) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}
}

func (s available) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Candidates.NotReady() > 0 {
		s.explain(x)
		x.Candidates = x.Keep((*workers.Worker).Candidate)
	}
	return next(x)
}

func (s available) explain(x *pipeline.Exchange) {
	if x.Explain == nil {
		return
	}
	for _, w := range x.Candidates.All() {
		switch {
		case !w.Ready():
			x.Explain.Leave(w, s.Name(), w.Status().String())
		case w.Cordoned():
			x.Explain.Leave(w, s.Name(), "cordoned: discovery does not want it any more")
		}
	}
}
