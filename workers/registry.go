package workers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Registry holds the workers that the gateway knows, and publishes for each model the list of those that serve it. Requests
// read without a lock; changes are serialised.
type Registry struct {
	published atomic.Pointer[published]

	mu        sync.Mutex // held for every change, short and without I/O
	byID      map[ID]*Worker
	byURL     map[string]*Worker
	byAddress map[string][]*Worker
	aliases   map[string]string      // configured: alias -> canonical id
	rules     map[string][]retryRule // by model, the last word last
	claims    []claim                // of the workers' model cards, the oldest first
	listeners []Listener
	last      uint64 // the order of the last registration
	slots     slots
}

// Listener hears of every change, in order, on the goroutine that makes it and under the registry's lock: what it does is
// short, and it calls nothing that changes the registry.
type Listener interface {
	WorkerAdded(w *Worker)
	WorkerReplaced(was, now *Worker)
	WorkerRemoved(w *Worker)
	WorkerStatus(w *Worker, from, to Status)
}

// Deaf is a [Listener] that hears nothing, to be embedded in one that cares for some changes alone.
type Deaf struct{}

// WorkerAdded does nothing.
func (Deaf) WorkerAdded(*Worker) {}

// WorkerReplaced does nothing.
func (Deaf) WorkerReplaced(_, _ *Worker) {}

// WorkerRemoved does nothing.
func (Deaf) WorkerRemoved(*Worker) {}

// WorkerStatus does nothing.
func (Deaf) WorkerStatus(*Worker, Status, Status) {}

// published is what requests read. The map and the pools it points to are replaced, never changed.
type published struct {
	pools   map[slot]*pool
	serving map[string]int             // models that some worker serves, by canonical id, with the number of workers
	aliases map[string]string          // aliases whose canonical id is served
	retries map[string]*ResilienceSpec // by model: the last word of its workers
	workers int
	ranks   int // workers that are data-parallel ranks
}

// slot names a published list: the workers of one model ("" for those of every model) that play one part.
type slot struct {
	model string
	typ   Type
	mode  Mode
}

// anyModel is the slot of requests that name no model: the workers of every model.
const anyModel = "\x00any"

// NewRegistry makes a registry that holds the given workers.
func NewRegistry(ws ...*Worker) *Registry {
	r := &Registry{
		byID: map[ID]*Worker{}, byURL: map[string]*Worker{}, byAddress: map[string][]*Worker{}, aliases: map[string]string{},
		rules: map[string][]retryRule{},
	}
	r.published.Store(&published{pools: map[slot]*pool{}, serving: map[string]int{}, aliases: map[string]string{}})
	for _, w := range ws {
		if err := r.Add(w); err != nil {
			panic(err) // two workers with one URL: a mistake in the program
		}
	}
	return r
}

// Listen asks for every later change, until stop is called.
func (r *Registry) Listen(l Listener) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listen(l)
}

// Follow is Listen for one that also has to know who is there: it hears of them first, as of workers that are added, and
// misses and doubles nothing.
func (r *Registry) Follow(l Listener) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all() {
		l.WorkerAdded(w)
	}
	return r.listen(l)
}

func (r *Registry) listen(l Listener) (stop func()) {
	r.listeners = append(slices.Clip(r.listeners), l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.listeners, l); i >= 0 {
			r.listeners = slices.Delete(slices.Clone(r.listeners), i, i+1)
		}
	}
}

// ExistsError says that a URL is taken.
type ExistsError struct{ Holder *Worker }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("Worker already exists at URL '%s' with ID %s. Use PUT /workers/%[2]s to replace or PATCH /workers/%[2]s to update.",
		e.Holder.URL(), e.Holder.ID())
}

// Add registers workers at the end of the lists of their models: all of them, or none if the URL of one is taken. The error is an
// [*ExistsError].
func (r *Registry) Add(ws ...*Worker) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range ws {
		if holder := r.byURL[w.URL()]; holder != nil {
			return &ExistsError{holder}
		}
	}
	for _, w := range ws {
		r.add(w)
	}
	return nil
}

func (r *Registry) add(w *Worker) {
	w.pools = []slot{{w.model, w.Type(), w.Mode()}, {anyModel, w.Type(), w.Mode()}}
	r.last++
	w.order.Store(r.last)
	w.slot.Store(r.slots.take())
	r.index(w)
	realias := r.claim(w, 1)
	w.owner.Store(r) // first: a change of state that the tally below misses finds the owner, and waits for the lock
	w.tallied = w.flags()
	r.publish(realias, func(p *published) {
		p.count(w, 1)
		for _, s := range w.pools {
			p.pools[s] = p.pools[s].with(w)
		}
		r.adopt(p, nil, w)
	})
	for _, l := range r.listeners {
		l.WorkerAdded(w)
	}
}

// count counts a worker that comes or goes.
func (p *published) count(w *Worker, by int) {
	p.workers += by
	if _, ranked := w.Rank(); ranked {
		p.ranks += by
	}
	p.serve(w.model, by)
}

// Ranked tells whether some worker is a data-parallel rank: then bodies have to be edited.
func (r *Registry) Ranked() bool { return r.published.Load().ranks > 0 }

// Remove takes a worker out. removed is false if this very registration, at this revision, is not there any more.
func (r *Registry) Remove(w *Worker) (removed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[w.id] != w {
		return false
	}
	r.unindex(w)
	r.publish(r.claim(w, -1), func(p *published) {
		p.count(w, -1)
		for _, s := range w.pools {
			if p.pools[s] = p.pools[s].without(w); p.pools[s] == nil {
				delete(p.pools, s)
			}
		}
		r.bequeath(p, w)
	})
	w.owner.Store(nil)
	w.forgetLoad()
	for _, l := range r.listeners {
		l.WorkerRemoved(w)
	}
	r.slots.free(w.slot.Load()) // last: the listeners' books are clear
	return true
}

func (r *Registry) index(w *Worker) {
	r.byID[w.id] = w
	r.byURL[w.URL()] = w
	r.byAddress[w.endpoint.Address] = append(r.byAddress[w.endpoint.Address], w)
}

func (r *Registry) unindex(w *Worker) {
	self := func(m *Worker) bool { return m == w }
	address := w.endpoint.Address
	delete(r.byID, w.id)
	delete(r.byURL, w.URL())
	if r.byAddress[address] = slices.DeleteFunc(r.byAddress[address], self); len(r.byAddress[address]) == 0 {
		delete(r.byAddress, address)
	}
}

// publish changes a copy and makes it the current one. The copy is of the maps alone: as long as the fleet is, in models.
// realias tells that the claims to aliases have changed.
func (r *Registry) publish(realias bool, change func(*published)) {
	was := r.published.Load()
	now := &published{
		pools: maps.Clone(was.pools), serving: maps.Clone(was.serving), aliases: was.aliases, retries: was.retries,
		workers: was.workers, ranks: was.ranks,
	}
	change(now)
	if realias || len(now.serving) != len(was.serving) {
		r.realias(now)
	}
	r.published.Store(now)
}

func (p *published) serve(model string, by int) {
	if model == "" {
		return
	}
	if p.serving[model] += by; p.serving[model] <= 0 {
		delete(p.serving, model)
	}
}

func (r *Registry) transit(w *Worker, to Status, allowed func(now Status) bool) (moved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, moved := w.moveTo(to, allowed)
	if !moved || w.owner.Load() != r {
		return moved
	}
	r.tally(w)
	for _, l := range r.listeners {
		l.WorkerStatus(w, from, to)
	}
	return true
}

// settle applies the result of a poll in one step: the verdict on the worker's load, and the report, or nil if there is none. It
// does nothing for a worker that is not registered, or not ready, any more. edge tells that the verdict has changed.
func (r *Registry) settle(w *Worker, report *Report) (edge bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.owner.Load() != r || !w.Ready() {
		return false
	}
	over := report != nil && w.settings.Overload.Over(report)
	edge = w.overloaded.Swap(over) != over
	w.report.Store(report)
	r.tally(w)
	return edge
}

// expire takes a report away, and the verdict with it, unless the worker has another one by now.
func (r *Registry) expire(w *Worker, old *Report) (gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.report.CompareAndSwap(old, nil) {
		return false
	}
	w.overloaded.Store(false)
	r.tally(w)
	return true
}

// recount brings the counts of the worker's pools up to date.
func (r *Registry) recount(w *Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally(w)
}

func (r *Registry) tally(w *Worker) {
	now := w.flags()
	if now == w.tallied || w.owner.Load() != r {
		return
	}
	current := r.published.Load()
	for _, s := range w.pools {
		current.pools[s].add(w.tallied, -1)
		current.pools[s].add(now, 1)
	}
	w.tallied = now
}

// Aliased tells whether some served model has another name: then bodies may have to be edited.
func (r *Registry) Aliased() bool { return len(r.published.Load().aliases) > 0 }

// Pool is the list of the workers that serve a model, by its canonical id, and play a part over a connection mode, in the
// order of their registration. A model that no worker names is served by the workers that take every model; model "" by all.
func (r *Registry) Pool(model string, typ Type, mode Mode) List {
	p := r.published.Load()
	if model == "" {
		return p.pools[slot{anyModel, typ, mode}].list()
	}
	if own := p.pools[slot{model, typ, mode}]; own != nil {
		return own.list()
	}
	if _, served := p.serving[model]; served {
		return List{} // by workers of another type or mode: never a union
	}
	return p.pools[slot{"", typ, mode}].list()
}

// Len is the number of registered workers.
func (r *Registry) Len() int { return r.published.Load().workers }

// Models are the canonical ids of the models that registered workers serve, sorted.
func (r *Registry) Models() []string { return slices.Sorted(maps.Keys(r.published.Load().serving)) }

// ModelCount is the number of those models; workers that take every model count as one.
func (r *Registry) ModelCount() int {
	p := r.published.Load()
	n := len(p.serving)
	for s := range p.pools {
		if s.model == "" {
			return n + 1
		}
	}
	return n
}

// All are the registered workers in the order of their registration, which is that of every pool too. It takes no lock, however
// many there are, and the list is the caller's.
func (r *Registry) All() []*Worker {
	p := r.published.Load()
	all := make([]*Worker, 0, p.workers)
	lists := 0
	for s, pool := range p.pools {
		if s.model == anyModel { // each worker is on exactly one of these
			all = append(all, pool.list().Members()...)
			lists++
		}
	}
	if lists > 1 {
		slices.SortFunc(all, inOrder)
	}
	return all
}

func (r *Registry) all() []*Worker { return slices.SortedFunc(maps.Values(r.byID), inOrder) }

func inOrder(a, b *Worker) int { return cmp.Compare(a.order.Load(), b.order.Load()) }

// ByID finds a worker by its id; nil if it is not registered.
func (r *Registry) ByID(id ID) *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// ByURL finds a worker by its URL; without a scheme, each of them is tried. nil if it is not registered.
func (r *Registry) ByURL(url string) *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	url = strings.TrimRight(url, "/")
	if w := r.byURL[url]; w != nil {
		return w
	}
	for _, scheme := range []string{"http://", "grpc://", "https://", "grpcs://"} {
		if w := r.byURL[scheme+url]; w != nil {
			return w
		}
	}
	return nil
}

// ByAddress are the registrations at an address (see [Endpoint]), ranks included.
func (r *Registry) ByAddress(address string) []*Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.byAddress[address])
}
