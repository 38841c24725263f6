package workers

import (
	"cmp"
	"slices"
)

// succeed makes w, which nobody knows yet, the next revision of a registration: it has its id, goes on with its counts of requests and
// routing keys, and keeps its breaker if that is set alike.
func (w *Worker) succeed(was *Worker) {
	w.id, w.key = was.id, was.key
	w.revision, w.traffic = was.revision+1, was.traffic
	if w.settings.Breaker == was.settings.Breaker {
		w.breaker = was.breaker
	}
}

// Replace puts now, made to succeed was, in its place: in every list, at the same place, in one step, so that no request finds neither
// or both of them. Its state and its cordon go over to now, but what load reports have said of it does not. replaced is false if was, at this very
// revision, is not registered any more, or now is no next revision of it; then nothing has changed.
//
// The replacement of a worker that drains is ready: it is not the registration that somebody is about to remove.
func (r *Registry) Replace(was, now *Worker) (replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[was.id] != was || now.id != was.id || now.URL() != was.URL() || now.revision != was.revision+1 {
		return false
	}
	r.hand(was, now)
	for _, l := range r.listeners { // first, so that the policies know the worker before a request finds it
		l.WorkerReplaced(was, now)
	}
	realias := r.claim(now, 1)
	realias = r.claim(was, -1) || realias || was.model != now.model
	r.publish(realias, func(p *published) {
		if was.model != now.model {
			p.serve(now.model, 1)
			p.serve(was.model, -1)
		}
		p.swap(was, now)
		r.adopt(p, was, now)
	})
	return true
}

// hand gives all that belongs to a registration to its next revision. The lock is held.
func (r *Registry) hand(was, now *Worker) {
	now.pools = []slot{{now.model, now.Type(), now.Mode()}, {anyModel, now.Type(), now.Mode()}}
	now.order.Store(was.order.Load())
	now.slot.Store(was.slot.Load())
	now.series.Store(was.series.Load())
	now.onTrip.Store(was.onTrip.Load())
	status := was.Status()
	if status == Draining {
		status = Ready
	}
	now.status.Store(int32(status))
	now.cordoned.Store(was.cordoned.Load())
	now.breaker.tells(now.breakerMoved)
	now.owner.Store(r) // before the flags are read: a change of state that they miss waits for the lock
	now.tallied = now.flags()
	was.owner.Store(nil)
	was.forgetLoad()

	r.byID[now.id], r.byURL[now.URL()] = now, now
	at := r.byAddress[now.endpoint.Address]
	at[slices.Index(at, was)] = now
}

// swap puts now in the place of was in the lists that both are on, takes was from those of its own, and adds now to its own.
func (p *published) swap(was, now *Worker) {
	for _, s := range now.pools {
		if slices.Contains(was.pools, s) {
			p.pools[s] = p.pools[s].swap(was, now)
		} else {
			p.pools[s] = p.pools[s].insert(now)
		}
	}
	for _, s := range was.pools {
		if slices.Contains(now.pools, s) {
			continue
		}
		if p.pools[s] = p.pools[s].without(was); p.pools[s] == nil {
			delete(p.pools, s)
		}
	}
}

// swap is the pool with now in the place of was. It has the same identity: its members are the same registrations.
func (p *pool) swap(was, now *Worker) *pool {
	next := &pool{members: slices.Clone(p.members), identity: p.identity}
	next.members[slices.Index(next.members, was)] = now
	next.tally()
	return next
}

// insert is the pool with one more member at the place of its registration.
func (p *pool) insert(w *Worker) *pool {
	next := &pool{}
	if p != nil {
		next.members = slices.Clone(p.members)
	}
	at, _ := slices.BinarySearchFunc(next.members, w.order.Load(), func(m *Worker, order uint64) int { return cmp.Compare(m.order.Load(), order) })
	next.members = slices.Insert(next.members, at, w)
	for _, m := range next.members {
		next.identity = next.identity.join(m)
	}
	next.tally()
	return next
}
