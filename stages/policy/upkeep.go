package policy

import (
	"context"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// Kept is a policy whose books need work in the background: an index that has grown too large, pins that nobody uses.
type Kept interface {
	Policy
	// Upkeep does what is due now. It is called at every eviction interval and when a policy has asked for it ([Shared.wake]),
	// never twice at once, while requests go on.
	Upkeep(now time.Time)
}

// Maintenance is the background work of the set's policies. Without it books grow to their hard bounds and stay there.
func (s *Set) Maintenance() pipeline.Dependency { return s.upkeep }

// Tick is the maintenance of a program whose time is not the process's, such as a simulation: it does what is due now by the clock of
// the settings. It is called often, never twice at once, and not where [Set.Maintenance] runs.
func (s *Set) Tick() {
	u, now := s.upkeep, s.settings.Clock()
	u.due(u.ticks, now)
	woken := false
	select {
	case <-u.woken:
		woken = true
	default:
	}
	u.round(u.ticks, now, woken)
}

// upkeep calls the policies of a set that want it.
type upkeep struct {
	set   *Set
	woken chan struct{}      // holds one call at most: who is woken looks at everything
	ticks map[Kept]time.Time // when Tick last kept each
}

var _ pipeline.Dependency = (*upkeep)(nil)

func newUpkeep(s *Set) *upkeep {
	return &upkeep{set: s, woken: make(chan struct{}, 1), ticks: map[Kept]time.Time{}}
}

func (*upkeep) Name() string { return "policy_upkeep" }

// Run keeps the policies until ctx ends.
func (u *upkeep) Run(ctx context.Context, ready func()) error {
	ready()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	last := map[Kept]time.Time{}
	for {
		timer.Reset(max(u.due(last, time.Now()), time.Millisecond))
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-u.woken:
			woken = true
		case <-timer.C:
		}
		u.round(last, time.Now(), woken)
	}
}

// wake asks for a round now.
func (u *upkeep) wake() {
	select {
	case u.woken <- struct{}{}:
	default: // one is asked for already
	}
}

// due is how long it is until the soonest round that is due, an hour at most. A policy that is new is due after its interval.
func (u *upkeep) due(last map[Kept]time.Time, now time.Time) time.Duration {
	wait := time.Hour
	for p, interval := range u.set.kept() {
		if _, known := last[p]; !known {
			last[p] = now
		}
		if interval > 0 {
			wait = min(wait, last[p].Add(interval).Sub(now))
		}
	}
	return wait
}

// round does what is due, and forgets the policies that are gone.
func (u *upkeep) round(last map[Kept]time.Time, now time.Time, all bool) {
	kept := u.set.kept()
	for p, interval := range kept {
		if all || interval > 0 && now.Sub(last[p]) >= interval {
			p.Upkeep(u.set.settings.Clock())
			last[p] = now
		}
	}
	for p := range last {
		if _, live := kept[p]; !live {
			p.Upkeep(u.set.settings.Clock()) // its workers are gone, and with them what it has kept
			delete(last, p)
		}
	}
}

// kept are the policies that want upkeep, each with its interval; 0 is never.
func (s *Set) kept() map[Kept]time.Duration {
	kept := map[Kept]time.Duration{}
	if k, ok := s.standard.(Kept); ok {
		kept[k] = s.settings.EvictionInterval
	}
	for _, p := range *s.own.Load() {
		k, ok := p.(Kept)
		if !ok {
			continue
		}
		kept[k] = s.settings.EvictionInterval
		if plain(p.Name()) != plain(s.standard.Name()) { // see decide: it has the built-in settings
			kept[k] = builtInOf(p.Name(), s.settings.Shared).EvictionInterval
		}
	}
	return kept
}

// wake asks for upkeep soon; nothing happens where nobody maintains the policies.
func (s Shared) wake() {
	if s.upkeep != nil {
		s.upkeep.wake()
	}
}
