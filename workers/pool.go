package workers

import (
	"slices"
	"sync/atomic"
)

// flag is one reason for which a worker may not be chosen. The registry counts them for every pool, so that a filter finds out
// in one load that nobody has to be left out.
type flag uint8

const (
	notReady flag = iota // the state, or a cordon
	cordoned             // a cordon alone: in another state the worker would be chosen
	tripped
	overloaded
	flagCount
)

// flags is a set of reasons, one bit for each flag.
type flags uint8

// pool is one published list with the counts of its members. The members and the identity never change; a change of
// membership publishes another pool. The counts follow the members as long as the pool is the current one.
type pool struct {
	members  []*Worker
	identity Identity
	counts   [flagCount]atomic.Int32
}

// with is the pool with one more member at the end.
func (p *pool) with(w *Worker) *pool {
	if p == nil {
		p = &pool{}
	}
	// The array is shared with p, whose own list ends before the new member; a pool is followed by one other at most, so
	// each place is written once, and a wave of registrations does not copy the fleet for each of them.
	next := &pool{identity: p.identity.join(w), members: append(p.members, w)}
	for f := range flagCount {
		next.counts[f].Store(p.counts[f].Load()) // the registry's lock is held: nobody else counts
	}
	next.add(w.tallied, 1)
	return next
}

// without is the pool without a member; nil when nobody is left.
func (p *pool) without(w *Worker) *pool {
	next := &pool{members: make([]*Worker, 0, len(p.members))}
	for _, m := range p.members {
		if m != w {
			next.members = append(next.members, m)
			next.identity = next.identity.join(m)
		}
	}
	if len(next.members) == 0 {
		return nil
	}
	next.tally()
	return next
}

// tally counts the members' flags as the registry last saw them. The registry's lock is held.
func (p *pool) tally() {
	for _, w := range p.members {
		p.add(w.tallied, 1)
	}
}

func (p *pool) add(set flags, by int32) {
	for f := range flagCount {
		if set&(1<<f) != 0 {
			p.counts[f].Add(by)
		}
	}
}

func (p *pool) list() List {
	if p == nil {
		return List{}
	}
	return List{members: slices.Clip(p.members), pool: p, ordered: true}
}
