package workers

import (
	"iter"
	"slices"
)

// Identity names an ordered set of registrations in 128 bits. Two lists have the same identity if they hold the same workers
// in the same order; a worker that was removed and added again is another worker.
type Identity [2]uint64

// join adds one more member behind those that the identity stands for.
func (i Identity) join(w *Worker) Identity {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // odd, so that multiplying loses nothing; order matters
	i[0] = (i[0]^w.key[0])*odd1 + 0x165667b19e3779f9
	i[1] = (i[1]^w.key[1])*odd2 + i[0]>>29
	return i
}

// List is an immutable, ordered list of workers: one that the registry has published, with counts of the members that may not
// be chosen, or what a filter has kept of one. The zero List is empty. Copying it is cheap; it is passed by value.
type List struct {
	members []*Worker
	pool    *pool // the published list that these are members of; nil for a list that a filter has kept
	ordered bool  // by registration: it is a published list, or what was kept of one
}

// ListOf is a list of the given workers, without counts of its own: it counts when it is asked.
func ListOf(members ...*Worker) List { return List{members: members} }

// Len is the number of workers.
func (l List) Len() int { return len(l.members) }

// At is the i-th worker, counted from 0.
func (l List) At(i int) *Worker { return l.members[i] }

// All yields the workers in order.
func (l List) All() iter.Seq2[int, *Worker] {
	return func(yield func(int, *Worker) bool) {
		for i, w := range l.members {
			if !yield(i, w) {
				return
			}
		}
	}
}

// Any tells whether some worker satisfies f.
func (l List) Any(f func(*Worker) bool) bool {
	for _, w := range l.members {
		if f(w) {
			return true
		}
	}
	return false
}

// Contains tells whether w is on the list.
func (l List) Contains(w *Worker) bool { return l.Index(w) >= 0 }

// Index is the place of w on the list, or of another revision of the same registration; -1 if it is not there. Lists that come from a registry are in the order of registration, so
// that it costs a few steps, however long the list is; of other lists it looks at every member.
func (l List) Index(w *Worker) int {
	if !l.ordered {
		return slices.IndexFunc(l.members, func(m *Worker) bool { return m == w || m.id == w.id })
	}
	order := w.order.Load()
	low, high := 0, len(l.members)
	for guess := l.guess(order); low < high; guess = int(uint(low+high) / 2) {
		switch at := l.members[guess].order.Load(); {
		case at == order:
			if l.members[guess].id != w.id {
				return -1
			}
			return guess
		case at < order:
			low = guess + 1
		default:
			high = guess
		}
	}
	return -1
}

// guess is where a member of that order stands if the orders are evenly spread; as long as nobody has left, it is there.
func (l List) guess(order uint64) int {
	if len(l.members) == 0 {
		return 0
	}
	first, last := l.members[0].order.Load(), l.members[len(l.members)-1].order.Load()
	if order <= first || last <= first {
		return 0
	}
	return int(float64(min(order, last)-first) / float64(last-first) * float64(len(l.members)-1))
}

// Identity is the list's identity: known for a published list, computed in one pass for a kept one.
func (l List) Identity() Identity {
	if l.pool != nil {
		return l.pool.identity
	}
	var i Identity
	for _, w := range l.members {
		i = i.join(w)
	}
	return i
}

// NotReady is the number of members that are no candidates: their status is not ready, as that of draining ones, or they are cordoned.
func (l List) NotReady() int { return l.count(notReady) }

// Cordoned is the number of those whose status is ready, and that are no candidates because they are cordoned.
func (l List) Cordoned() int { return l.count(cordoned) }

// Tripped is the number of members whose circuit breaker is not closed.
func (l List) Tripped() int { return l.count(tripped) }

// Overloaded is the number of members whose last load report is over a ceiling.
func (l List) Overloaded() int { return l.count(overloaded) }

func (l List) count(f flag) int {
	if l.pool != nil {
		return int(l.pool.counts[f].Load())
	}
	n := 0
	for _, w := range l.members {
		if w.flags()&(1<<f) != 0 {
			n++
		}
	}
	return n
}

// Keep appends the members that satisfy f to scratch and returns them as a list. The list is valid until scratch is used again.
func (l List) Keep(scratch []*Worker, f func(*Worker) bool) List {
	for _, w := range l.members {
		if f(w) {
			scratch = append(scratch, w)
		}
	}
	return List{members: scratch, ordered: l.ordered}
}

// Members are the list's workers; the caller must not change them.
func (l List) Members() []*Worker { return l.members }
