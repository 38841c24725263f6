package stages

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
)

// Dispatch looks once more at the chosen workers just before they are counted: one that went over its ceiling since it was
// chosen sheds the request, and a half-open breaker gives out its trials here. Who finds them all taken lost a race against
// another request, who finds its worker cordoned one against its cluster: 503 no_available_workers, tried again at once. A chain whose
// workers never report load may leave it out.
func Dispatch(pollInterval time.Duration, shed prometheus.Counter) pipeline.Stage {
	return &dispatch{pollInterval, shed}
}

type dispatch struct {
	pollInterval time.Duration
	shed         prometheus.Counter // smg_worker_overload_shed_total{stage="dispatch"}
}

var (
	_ pipeline.Stage      = (*dispatch)(nil)
	_ pipeline.Contracted = (*dispatch)(nil)
)

func (*dispatch) Name() string { return "dispatch" }

func (*dispatch) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}
}

func (d *dispatch) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	for i := range x.Legs.Len() {
		if w := x.Legs.At(i).Worker; w.Overloaded() && fallenBack.Get(x) != w {
			x.Explain.Leave(w, d.Name(), "overloaded since it was chosen")
			if !x.DryRun {
				d.shed.Inc()
			}
			return overloadShed(x.Asked, "The worker chosen for model '%s' became overloaded before dispatch", d.pollInterval)
		}
	}
	for i := range x.Legs.Len() {
		if w := x.Legs.At(i).Worker; w.Cordoned() {
			x.Explain.Leave(w, d.Name(), "cordoned since it was chosen")
			return lostRace(x)
		}
	}
	if x.DryRun {
		return next(x)
	}
	taken := 0
	defer func() {
		for i := range taken {
			x.Legs.At(i).ReleaseTrial()
		}
	}()
	for ; taken < x.Legs.Len(); taken++ {
		if !x.Legs.At(taken).TakeTrial() {
			return lostRace(x)
		}
	}
	return next(x)
}

// lostRace is the answer when a worker could be chosen a moment ago: another one may be chosen now.
func lostRace(x *pipeline.Exchange) *pipeline.Error {
	lost := pipeline.NoAvailableWorkers(x)
	lost.Prompt = true
	return lost
}
