package stages

import (
	"time"

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

func (s *selection) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Model, pipeline.Candidates},
		Gives: []pipeline.Fact{pipeline.Target},
		Uses:  []pipeline.Dependency{s.policies.Maintenance()},
	}
}

func (s *selection) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	p := s.policies.For(x.Model)
	i := s.choose(x, p)
	if i < 0 {
		return nobody(x, p)
	}
	w := x.Candidates.At(i)
	x.Legs.Add(w, w.Type()).Policy = p.Name()
	if x.DryRun {
		return next(x)
	}
	s.count(x, p, w.Type().String(), w.Mode().String())
	if booked, ok := p.(policy.Booked); ok {
		defer booked.Ended(x) // deferred: a panic is an end as well
	}
	return next(x)
}

func (s *selection) choose(x *pipeline.Exchange, p policy.Policy) int {
	if !x.Measured {
		return p.Select(x, x.Candidates)
	}
	began := time.Now()
	i := p.Select(x, x.Candidates)
	s.metrics.Policies.Decision(p.Name()).Observe(time.Since(began).Seconds())
	return i
}

func (s *selection) count(x *pipeline.Exchange, p policy.Policy, typ, mode string) {
	s.metrics.Workers.Selections(typ, mode, s.metrics.ModelLabel(x.Model, x.Served), p.Name()).Inc()
}

// nobody is the answer when the policy has chosen none of the candidates, with its own words if it has any.
func nobody(x *pipeline.Exchange, p policy.Policy) error {
	err := pipeline.NoAvailableWorkers(x)
	if r, ok := p.(policy.Reasoned); ok && x.Candidates.Len() > 0 {
		if reason := r.Reason(x); reason != "" {
			err.Message = reason
		}
	}
	return err
}
