package discovery

import (
	"maps"
	"slices"
	"sync"
)

// store keeps what follows from the pods of one namespace, or of all: the workers that they stand for, not the pods themselves.
type store struct {
	mu   sync.Mutex
	pods map[string]*kept    // by namespace/name; those without workers and warnings are not kept
	held map[string][]Wanted // workers that the last list did not have any more, and that are wanted until a second one agrees
	all  []Wanted            // of pods and held; nil after a change, made anew when asked for
	read bool                // listed once
}

// kept is what a pod comes to.
type kept struct {
	uid    string
	wanted []Wanted
	warned map[string]struct{} // sentences that were logged about this uid
}

func newStore() *store { return &store{pods: map[string]*kept{}, held: map[string][]Wanted{}} }

// wanted are all workers; ok is false before the first list.
func (s *store) wanted() ([]Wanted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		return nil, false
	}
	if s.all == nil {
		s.all = make([]Wanted, 0, len(s.pods))
		for _, e := range s.pods {
			s.all = append(s.all, e.wanted...)
		}
		for _, h := range s.held {
			s.all = append(s.all, h...)
		}
	}
	return s.all, true
}

func (s *store) listed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// warned are the sentences that were logged about the pod of this name, if it is still the one with this uid.
func (s *store) warned(key, uid string) map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pods[key]; e != nil && e.uid == uid {
		return e.warned
	}
	return nil
}

// put takes what a pod comes to now; nil: nothing, it is gone or none of ours. known is false if it was nothing before either.
// An event is evidence: what a list has put in doubt about the pod is settled by it.
func (s *store) put(key string, now *kept) (c Change, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.pods[key]
	if before == nil && now == nil && s.held[key] == nil {
		return Change{}, false
	}
	c.add(s.claims(key), now.workers())
	delete(s.pods, key)
	delete(s.held, key)
	if now != nil {
		s.pods[key] = now
	}
	s.all = nil
	return c, true
}

// replace takes a whole list in one step. Workers that it does not have any more are wanted for now if they are more than half,
// unless the list is a second one, made after the time that takes, and the first did not have them either. held is how many
// those are.
func (s *store) replace(pods map[string]*kept, second bool) (c Change, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing, lost, had := s.missing(pods)
	if lost*2 <= had || second && s.doubted(missing) {
		missing, lost = map[string][]Wanted{}, 0
	}
	for key := range s.keys(pods) {
		c.add(s.claims(key), append(slices.Clip(pods[key].workers()), missing[key]...))
	}
	c.Alters = c.Alters || !s.read
	s.pods, s.held, s.all, s.read = pods, missing, nil, true
	return c, lost
}

// missing are the workers that are wanted now and that a list does not have, by pod; had is how many are wanted now.
func (s *store) missing(pods map[string]*kept) (missing map[string][]Wanted, lost, had int) {
	missing = map[string][]Wanted{}
	for key := range s.keys(nil) {
		before := s.claims(key)
		had += len(before)
		gone := without(before, pods[key].workers())
		lost += len(gone)
		if len(gone) > 0 {
			missing[key] = gone
		}
	}
	return missing, lost, had
}

// doubted reports whether all that is missing now was missing in the last list as well.
func (s *store) doubted(missing map[string][]Wanted) bool {
	for key, gone := range missing {
		if len(without(gone, s.held[key])) > 0 {
			return false
		}
	}
	return true
}

// claims are the workers of a pod, those included that are in doubt.
func (s *store) claims(key string) []Wanted {
	return append(slices.Clip(s.pods[key].workers()), s.held[key]...)
}

// keys are those of all pods that the store or a list knows.
func (s *store) keys(pods map[string]*kept) map[string]struct{} {
	keys := make(map[string]struct{}, len(s.pods))
	for k := range maps.Keys(s.pods) {
		keys[k] = struct{}{}
	}
	for k := range maps.Keys(s.held) {
		keys[k] = struct{}{}
	}
	for k := range maps.Keys(pods) {
		keys[k] = struct{}{}
	}
	return keys
}

func (e *kept) workers() []Wanted {
	if e == nil {
		return nil
	}
	return e.wanted
}
