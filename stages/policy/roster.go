package policy

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/smg-go/smg/workers"
)

// roster is who is registered: by URL, which is what pins remember, and on the rings of the models. A nil roster knows nobody.
type roster struct {
	rings atomic.Pointer[rings]

	mu     sync.RWMutex
	byURL  map[string]*workers.Worker
	ringed bool // some policy looks keys up; before, no ring is built
}

// rings are the rings of a fleet: one of each model, and one of all workers for requests that name no model. While there is one model
// only, the two are the same.
type rings struct {
	all    *ring
	models map[string]*ring // "" is the ring of those that take every model
}

func newRoster() *roster { return &roster{byURL: map[string]*workers.Worker{}} }

// add puts a worker in, in the place of the one that had its URL before.
func (r *roster) add(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byURL[w.URL()] = w
	if r.ringed {
		r.change(w.Model(), func(one *ring) *ring { return one.with(w) })
	}
}

// remove takes a worker out; if another has its URL by now, that one stays.
func (r *roster) remove(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byURL[w.URL()] == w {
		delete(r.byURL, w.URL())
	}
	if r.ringed {
		r.change(w.Model(), func(one *ring) *ring { return one.without(w) })
	}
}

// change publishes what f makes of the rings that concern a model. The lock is held.
func (r *roster) change(model string, f func(*ring) *ring) {
	was := r.rings.Load()
	now := &rings{all: f(was.all), models: maps.Clone(was.models)}
	own := now.all
	if was.models[model] != was.all { // it is not the only model
		own = f(was.models[model])
	}
	if now.models[model] = own; own == nil {
		delete(now.models, model)
	}
	r.rings.Store(now)
}

// keepRings builds the rings, and keeps them up to date from now on.
func (r *roster) keepRings() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ringed {
		return
	}
	r.ringed = true
	everybody := slices.SortedFunc(maps.Values(r.byURL), func(a, b *workers.Worker) int {
		one, other := a.ID(), b.ID() // in the order in which they were made, more or less
		return bytes.Compare(one[:], other[:])
	})
	r.rings.Store(ringsOf(everybody))
}

func ringsOf(everybody []*workers.Worker) *rings {
	built := &rings{models: map[string]*ring{}}
	if len(everybody) == 0 {
		return built
	}
	built.all = newRing(everybody)
	byModel := map[string][]*workers.Worker{}
	for _, w := range everybody {
		byModel[w.Model()] = append(byModel[w.Model()], w)
	}
	for model, members := range byModel {
		built.models[model] = built.all
		if len(byModel) > 1 {
			built.models[model] = newRing(members)
		}
	}
	return built
}

// ring is the ring of those that may serve a model, by its canonical id; nil if there is none. "" is any model.
func (r *roster) ring(model string) *ring {
	if r == nil {
		return nil
	}
	all := r.rings.Load()
	if all == nil {
		return nil
	}
	if model == "" {
		return all.all
	}
	if own := all.models[model]; own != nil {
		return own
	}
	return all.models[""]
}

// place is the place on the list of the worker that has a URL now; -1 if it is not on it.
func (r *roster) place(url string, among workers.List) int {
	if w, known := r.find(url); known {
		if w == nil {
			return -1
		}
		return among.Index(w)
	}
	return slices.IndexFunc(among.Members(), func(w *workers.Worker) bool { return w.URL() == url })
}

// find is the worker that has a URL, nil if none has; known is false if the roster has never been told of any worker.
func (r *roster) find(url string) (w *workers.Worker, known bool) {
	if r == nil {
		return nil, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byURL[url], len(r.byURL) > 0
}
