package discovery

import (
	"sync"
	"time"
)

// schedule says when the next pass begins. Delays are fixed from the first reason on, and no later one extends them: changes that
// never end do not keep passes from being made.
type schedule struct {
	settings Settings

	mu       sync.Mutex
	due      [reasons]time.Time // zero: there is no such reason
	begun    time.Time          // the latest pass
	prompted time.Time          // the latest one that a change of the wanted workers asked for; zero: none yet
	synced   bool               // a pass has seen the source
	wake     chan struct{}      // told when due has changed
}

// The reasons for a pass.
const (
	altered  = iota // other workers are wanted
	touched         // something else has happened
	expiring        // a worker has been cordoned for as long as it takes
	routine         // nothing has happened for long
	reasons
)

func newSchedule(s Settings, now time.Time) *schedule {
	sched := &schedule{settings: s, wake: make(chan struct{}, 1)}
	sched.due[routine] = now.Add(s.Every)
	return sched
}

// note tells of a change; alters that other workers are wanted. Before the first pass that has seen the source it is not waited for.
func (s *schedule) note(now time.Time, alters bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.synced:
		s.plan(altered, now)
	case alters:
		at := now.Add(s.settings.Prompt)
		if !s.prompted.IsZero() {
			at = later(at, s.prompted.Add(s.settings.Gather))
		}
		s.plan(altered, at)
	default:
		s.plan(touched, now.Add(s.settings.Gather))
	}
}

// remind asks for a pass at a time, for a worker that has been cordoned. Such passes keep a distance from others, so that a fleet
// that flaps does not cost a pass for each of its workers.
func (s *schedule) remind(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		at = later(at, s.begun.Add(s.settings.Gather/4))
	}
	s.plan(expiring, at)
}

// plan sets when a pass is due for a reason, unless it is due for that already. The lock is held.
func (s *schedule) plan(reason int, at time.Time) {
	if !s.due[reason].IsZero() {
		return
	}
	s.due[reason] = at
	select {
	case s.wake <- struct{}{}:
	default: // it has not looked yet
	}
}

// next is when the next pass begins.
func (s *schedule) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.due[routine]
	for _, at := range s.due {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// begin tells that a pass begins: it serves every reason that there is. What happens from now on asks for another one.
func (s *schedule) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due[altered].IsZero() {
		s.prompted = now
	}
	s.begun = now
	s.due = [reasons]time.Time{}
	s.due[routine] = now.Add(s.settings.Every)
}

// saw tells that the pass has seen the source.
func (s *schedule) saw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
