package discovery

import (
	"sync"
	"time"

	"github.com/smg-go/smg/workers"
)

// cordons are the workers that a discovery has taken out of the candidates because their claims have been withdrawn. That takes
// effect at once, without a job; a pass removes them later, or lets them go.
type cordons struct {
	registry *workers.Registry
	dialect  *dialect

	mu      sync.Mutex // may be held while the registry's lock is taken, never the other way round
	since   map[workers.ID]time.Time
	gone    map[Claim]bool // withdrawn; a registration that is under way may still bring them
	changes uint64         // withdrawals so far: a view of what is wanted that is older must not let anybody go
}

func newCordons(r *workers.Registry, d *dialect) *cordons {
	return &cordons{registry: r, dialect: d, since: map[workers.ID]time.Time{}, gone: map[Claim]bool{}}
}

// hear cordons the workers of withdrawn claims, and lets those go that are claimed again. some is false if nobody was cordoned.
func (c *cordons) hear(change Change, now time.Time) (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(change.Withdrawn) > 0 {
		c.changes++
	}
	for _, claim := range change.Withdrawn {
		c.gone[claim] = true
		for _, w := range c.held(claim) {
			c.put(w, now)
			some = true
		}
	}
	for _, claim := range change.Claimed {
		delete(c.gone, claim)
		for _, w := range c.held(claim) {
			c.lift(w)
		}
	}
	return some
}

// held are the workers that have been registered by a claim.
func (c *cordons) held(claim Claim) []*workers.Worker {
	var own []*workers.Worker
	for _, w := range c.registry.ByAddress(claim.Address) {
		if by, owned := c.dialect.claimOf(w); owned && by == claim {
			own = append(own, w)
		}
	}
	return own
}

// arrived looks at a registration that is new or has been replaced. cordoned tells that it came too late: nobody wants it any more.
func (c *cordons) arrived(w *workers.Worker, now time.Time) (cordoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	claim, owned := c.dialect.claimOf(w)
	switch _, ours := c.since[w.ID()]; {
	case owned && c.gone[claim]:
		c.put(w, now)
		return true
	case !owned && ours: // it has become somebody else's
		c.lift(w)
	}
	return false
}

// withdrawn tells whether a claim has been withdrawn since a pass has seen it.
func (c *cordons) withdrawn(claim Claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[claim]
}

// add cordons a worker that is about to be removed.
func (c *cordons) add(w *workers.Worker, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(w, now)
}

// view is the number of withdrawals so far, to be taken before what is wanted is read.
func (c *cordons) view() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// review lets those go that are wanted or are nobody's of ours, and forgets what is over. wanted is as old as view; a withdrawal
// since then has another pass behind it.
func (c *cordons) review(wanted func(Claim) bool, busy map[string]bool, view uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.since {
		w := c.registry.ByID(id)
		if w == nil {
			delete(c.since, id)
			continue
		}
		if claim, owned := c.dialect.claimOf(w); !owned || view == c.changes && wanted(claim) {
			c.lift(w)
		}
	}
	for claim := range c.gone {
		if view == c.changes && (wanted(claim) || !busy[claim.Address]) {
			delete(c.gone, claim)
		}
	}
}

// age is since when a worker has been cordoned; ok is false if it is not.
func (c *cordons) age(w *workers.Worker) (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok = c.since[w.ID()]
	return since, ok
}

// release lets everybody go.
func (c *cordons) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.since {
		if w := c.registry.ByID(id); w != nil {
			c.lift(w)
		}
	}
	clear(c.since)
	clear(c.gone)
}

// put cordons a worker. The lock is held.
func (c *cordons) put(w *workers.Worker, now time.Time) {
	if _, is := c.since[w.ID()]; !is {
		c.since[w.ID()] = now
	}
	c.set(w, true)
}

// lift lets a worker go. The lock is held.
func (c *cordons) lift(w *workers.Worker) {
	if _, is := c.since[w.ID()]; is {
		delete(c.since, w.ID())
		c.set(w, false)
	}
}

// set changes the cordon of a worker, or of the revision by which it has been replaced meanwhile.
func (c *cordons) set(w *workers.Worker, on bool) {
	for w != nil && !c.registry.Cordon(w, on) {
		w = c.registry.ByID(w.ID())
	}
}
