package stages

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
)

// Policy lets the model's policy choose one of the candidates. If it chooses none of them, or there is none, the answer is 503
// no_available_workers, which may be retried.
func Policy(policies *policy.Set, m *telemetry.Metrics) pipeline.Stage {
	return &selection{policies, m}
}

type selection struct {
	policies *policy.Set
	metrics  *telemetry.Metrics
}

var (
	_ pipeline.Stage      = (*selection)(nil)
	_ pipeline.Contracted = (*selection)(nil)
)

func (*selection) Name() string { return "policy" }

func (*selection) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Model, pipeline.Candidates},
		Gives: []pipeline.Fact{pipeline.Target},
	}
}

func (s *selection) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	p := s.policies.For(x.Model)
	i := p.Select(x, x.Candidates)
	if i < 0 {
		return pipeline.NoAvailableWorkers(x)
	}
	w := x.Candidates.At(i)
	x.Legs.Add(w, w.Type()).Policy = p.Name()
	if !x.DryRun {
		s.count(x, p, w.Type().String(), w.Mode().String())
	}
	return next(x)
}

func (s *selection) count(x *pipeline.Exchange, p policy.Policy, typ, mode string) {
	s.metrics.Workers.Selections(typ, mode, s.metrics.ModelLabel(x.Model, x.Served), p.Name()).Inc()
}
