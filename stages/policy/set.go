package policy

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Set holds the default policy and the policies of models. The first worker of a model decides, by its label "policy", which
// one the model gets; without the label, or with an unknown name, the model shares the default. The model keeps its policy
// until its last worker is gone.
type Set struct {
	workers.Deaf // to changes of status

	standard Policy
	settings Settings
	demand   *pipeline.Demand
	log      *slog.Logger
	upkeep   *upkeep
	sessions *sessions // in front of every policy; nil: there are none

	own atomic.Pointer[map[string]Policy] // what requests read: models with a policy of their own

	mu     sync.Mutex
	models map[string]*assignment
}

// assignment is what a model with workers has.
type assignment struct {
	policy  Policy
	workers int
}

var _ workers.Listener = (*Set)(nil)

// NewSet makes a set with a default policy. demand is told what the policies read; it may be nil.
func NewSet(standard string, s Settings, demand *pipeline.Demand, log *slog.Logger) (*Set, error) {
	if demand == nil {
		demand = &pipeline.Demand{}
	}
	if log == nil {
		log = slog.Default()
	}
	set := &Set{demand: demand, log: log, models: map[string]*assignment{}}
	set.upkeep = newUpkeep(set)
	set.own.Store(&map[string]Policy{})
	s.complete(set)
	s.roster = newRoster()
	if s.memory == nil {
		s.memory = newIndexMemory(s.IndexMemory)
	}
	p, err := New(standard, s, log)
	if err != nil {
		return nil, err
	}
	if s.Sticky {
		set.sessions = newSessions(&s)
	}
	set.standard, set.settings = set.sessions.over(p), s
	demand.Raise(p.Wants())
	return set, nil
}

// complete puts what works in the place of what was left out, and what the set's policies share.
func (s *Shared) complete(set *Set) {
	if s.Clock == nil {
		s.Clock = time.Now
	}
	if s.Log == nil {
		s.Log = set.log
	}
	if s.work == nil {
		s.work = newWorkBooks(s.Clock)
	}
	s.Demand, s.upkeep = set.demand, set.upkeep
}

// Only is a set of one policy for all models, for tests and programs that need no more. It panics on an unknown name.
func Only(name string) *Set {
	set, err := NewSet(name, Settings{}, nil, nil)
	if err != nil {
		panic(err)
	}
	return set
}

// For is the policy of a model, by its canonical id; the default for one without a policy of its own, and for "".
func (s *Set) For(model string) Policy {
	if own := *s.own.Load(); len(own) > 0 {
		if p := own[model]; p != nil {
			return p
		}
	}
	return s.standard
}

// Default is the default policy.
func (s *Set) Default() Policy { return s.standard }

// WorkerAdded gives the worker's model a policy if it has none.
func (s *Set) WorkerAdded(w *workers.Worker) {
	s.settings.roster.add(w)
	if w.Type() != workers.Regular {
		return // the policies of the legs are set once, at the start
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.models[w.Model()]; a != nil {
		a.workers++
		return
	}
	a := &assignment{policy: s.decide(w), workers: 1}
	s.models[w.Model()] = a
	if a.policy != s.standard {
		s.demand.Raise(a.policy.Wants())
		s.publish()
	}
	s.log.Info("policy assigned to a new model", "model_id", w.Model(), "policy", a.policy.Name())
}

// decide follows the worker's label.
func (s *Set) decide(w *workers.Worker) Policy {
	label := w.Spec().Labels["policy"]
	if label == "" {
		return s.standard
	}
	settings := builtInOf(label, s.settings.Shared) // of another type than the operator's
	if plain(label) == plain(s.standard.Name()) {
		settings = s.settings
	}
	p, err := New(label, settings, s.log)
	if err != nil {
		s.log.Warn("label \"policy\" names no policy, the default serves the model", "model_id", w.Model(), "label", label, "worker", w.URL())
		return s.standard
	}
	return s.sessions.over(p)
}

// WorkerRemoved tells the model's policy, and drops it with the model's last worker.
func (s *Set) WorkerRemoved(w *workers.Worker) {
	s.settings.roster.remove(w)
	if w.Type() != workers.Regular {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standard.Forget(w) // requests without a model use the default
	a := s.models[w.Model()]
	if a == nil {
		s.log.Warn("a worker was removed from a model that has no policy", "model_id", w.Model(), "worker", w.URL())
		return
	}
	if a.policy != s.standard {
		a.policy.Forget(w)
	}
	if a.workers--; a.workers > 0 {
		return
	}
	delete(s.models, w.Model())
	if a.policy != s.standard {
		s.demand.Drop(a.policy.Wants())
		s.publish()
	}
	s.log.Info("policy removed with its model", "model_id", w.Model(), "policy", a.policy.Name())
}

// WorkerReplaced moves the worker's place to its new model, if that has changed; if not, what is known of its engine stays known.
func (s *Set) WorkerReplaced(was, now *workers.Worker) {
	s.bequeath(was, now)
	s.WorkerAdded(now)
	s.WorkerRemoved(was)
}

func (s *Set) publish() {
	own := map[string]Policy{}
	for model, a := range maps.All(s.models) {
		if a.policy != s.standard {
			own[model] = a.policy
		}
	}
	s.own.Store(&own)
	s.upkeep.wake() // one may be new to it, or gone
}
