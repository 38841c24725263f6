package policy

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// prefixIndex remembers which prompts were sent to which workers, so that the next prompt with the same beginning goes where that has
// been computed. It has a tree of texts and a tree of token ids for each model.
//
// A request looks a prompt up without any lock, and pays for what it records: nothing but stamps if the worker has seen the prompt.
// A tree that has grown beyond its limit is cut back by [prefixIndex.upkeep], in the background; beyond the memory of the process
// nothing is recorded until that has been done. A removed worker counts for nothing at once, and is collected by upkeep too.
type prefixIndex struct {
	limit  int64 // units of one tree
	page   int   // token ids of a page
	memory *indexMemory
	wake   func() // asks for upkeep

	trees  atomic.Pointer[map[treeName]*tree]
	visits sync.Pool
	asked  atomic.Bool // for upkeep

	mu      sync.Mutex
	removed [2]map[*workers.Worker]struct{} // since the turn, and in the time before
	turned  time.Time
}

// treeName names a tree of the index.
type treeName struct {
	model  string
	tokens bool
}

// newPrefixIndex makes an index with the limits of the settings.
func newPrefixIndex(s Settings) *prefixIndex {
	if s.memory == nil {
		s.memory = newIndexMemory(s.IndexMemory)
	}
	if s.MaxTreeSize <= 0 {
		s.MaxTreeSize = math.MaxInt64 / 2 // the memory is the limit
	}
	if s.BlockSize <= 0 {
		s.BlockSize = 16
	}
	x := &prefixIndex{limit: s.MaxTreeSize, page: s.BlockSize, memory: s.memory, wake: s.Shared.wake}
	x.trees.Store(&map[treeName]*tree{})
	x.visits.New = func() any { return &visit{index: x} }
	x.removed = [2]map[*workers.Worker]struct{}{{}, {}}
	return x
}

// tree is the tree of that name; nil if there is none.
func (x *prefixIndex) tree(name treeName) *tree { return (*x.trees.Load())[name] }

// plant makes a tree if there is none of that name. The lock is held.
func (x *prefixIndex) plant(name treeName) *tree {
	was := *x.trees.Load()
	if t := was[name]; t != nil {
		return t
	}
	now := maps.Clone(was)
	now[name] = newTree(x.grain(name), x.limit, x.memory)
	x.trees.Store(&now)
	return now[name]
}

func (x *prefixIndex) grain(name treeName) grain {
	if name.tokens {
		return pagesOf(x.page)
	}
	return grain{}
}

// look matches a prompt of a model. What it returns is given back with close, and used by one goroutine.
func (x *prefixIndex) look(model string, p *pipeline.RoutingPrompt) *visit {
	v := x.visits.Get().(*visit)
	v.name = treeName{model, len(p.Tokens) > 0}
	v.partition, v.generation = p.Partition, v.generation+1
	g, key := x.grain(v.name), p.Text
	if v.name.tokens {
		key = tokenKey(p.Tokens)
	}
	v.key = g.whole(key)
	if int64(len(key)) > x.limit {
		v.key = g.first(v.key, x.limit) // nothing beyond would stay
	}
	v.best = 0
	if v.tree = x.tree(v.name); v.tree != nil {
		v.origin = v.tree.origin(v.partition)
		v.path = v.tree.descend(v.path, v.key, v.partition)
		v.markHolders()
	}
	end := v.matched() // up to there the nodes have counted
	v.input = end.units + g.units(key[end.bytes:])
	return v
}

// receipt is what a record has newly put a worker on; the zero receipt is nothing.
type receipt struct {
	tree  *tree
	who   *tenant
	stamp uint64
	fresh int // units in front of it
}

// record puts the worker on the visited prompt. If the worker was removed, or there is no room, it does not.
func (x *prefixIndex) record(v *visit, w *workers.Worker) receipt {
	if v.key == "" {
		return receipt{}
	}
	who := x.tenant(v, w)
	if who == nil {
		return receipt{}
	}
	stamp := x.memory.next()
	held := v.touch(who.id, stamp)
	if held == len(v.path) && v.matched().bytes == len(v.key) {
		return receipt{}
	}
	if x.memory.full() || !who.pin() {
		x.ask()
		return receipt{}
	}
	defer who.unpin()
	fresh := v.tree.attach(v, who, stamp, held)
	if v.tree.total.Load() > v.tree.limit+v.tree.limit/10 || x.memory.tight() {
		x.ask()
	}
	if fresh < 0 {
		return receipt{}
	}
	return receipt{v.tree, who, stamp, fresh}
}

// tenant is the worker's tenant in the tree of the visit, both made if they have to be; nil if the worker was removed.
func (x *prefixIndex) tenant(v *visit, w *workers.Worker) *tenant {
	if v.tree != nil {
		if who := v.tree.tenants.of(w); who != nil {
			return who
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, removed := range x.removed {
		if _, was := removed[w]; was {
			return nil
		}
	}
	t := x.plant(v.name)
	if v.tree != t { // it was made, or dropped and made anew, since the prompt was looked up
		v.tree, v.origin, v.path = t, t.origin(v.partition), v.path[:0]
	}
	return t.tenants.enlist(w)
}

// takeBack undoes a record as far as no later one has used it.
func (x *prefixIndex) takeBack(p *pipeline.RoutingPrompt, r receipt) {
	if r.tree == nil {
		return
	}
	key := p.Text
	if len(p.Tokens) > 0 {
		key = tokenKey(p.Tokens)
	}
	v := x.visits.Get().(*visit)
	defer v.close()
	v.path = r.tree.descend(v.path, r.tree.whole(key), p.Partition)
	for i := len(v.path) - 1; i >= 0; i-- {
		parent, n, before := r.tree.origin(p.Partition), v.path[i].n, 0
		if i > 0 {
			parent, before = v.path[i-1].n, v.path[i-1].units
		}
		if parent != nil && before < r.fresh && r.fresh < v.path[i].units { // it was joined since
			parent, n = r.tree.sever(parent, n, r.fresh-before, r.who, r.stamp)
			before = r.fresh
		}
		if parent == nil || before < r.fresh {
			break
		}
		r.tree.detach(parent, n, r.who, r.stamp, r.stamp)
	}
	if root := r.tree.origin(p.Partition); p.Partition != 0 && root != nil {
		r.tree.prune(&r.tree.spaces, root)
	}
}

// forget makes everything that is known of a worker void.
func (x *prefixIndex) forget(w *workers.Worker) {
	x.mu.Lock()
	x.removed[0][w] = struct{}{}
	for _, t := range *x.trees.Load() {
		t.dismiss(w)
	}
	x.mu.Unlock()
	x.ask()
}

// ask asks for upkeep, once.
func (x *prefixIndex) ask() {
	if !x.asked.Load() && x.asked.CompareAndSwap(false, true) {
		x.wake()
	}
}
