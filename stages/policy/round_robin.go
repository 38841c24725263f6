package policy

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// rotations is how many sets of workers a round_robin instance remembers; the one that was not used for longest goes first.
const rotations = 4096

// RoundRobin gives every worker its turn. Each set of candidates has a rotation of its own, so that two sets that are used in
// turn are both served evenly, and a set that comes back goes on where it stood. A new set starts one place further than the
// new set before it, so that a fleet whose shape flaps does not lean on its first worker.
//
// As long as the set stays the same, a choice is one atomic increment; else it takes a short lock.
func RoundRobin() Policy {
	r := &roundRobin{}
	r.reset()
	return r
}

type roundRobin struct {
	stateless
	latest atomic.Pointer[rotation] // of the set that was asked for last

	mu     sync.Mutex
	sets   *simplelru.LRU[workers.Identity, *rotation]
	starts uint64 // where the next new set starts
}

// rotation is the turn of one set of workers.
type rotation struct {
	set  workers.Identity
	next atomic.Uint64
}

var _ Policy = (*roundRobin)(nil)

func (*roundRobin) Name() string { return "round_robin" }

func (r *roundRobin) Select(x *pipeline.Exchange, among workers.List) int {
	n := uint64(among.Len())
	if n == 0 {
		return -1
	}
	set := among.Identity()
	if x != nil && x.DryRun {
		return int(r.peek(set) % n)
	}
	turn := r.latest.Load()
	if turn == nil || turn.set != set {
		turn = r.find(set)
	}
	return int((turn.next.Add(1) - 1) % n)
}

// peek is where a set stands, or where it would start if it were new; nothing comes of asking.
func (r *roundRobin) peek(set workers.Identity) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if turn, known := r.sets.Peek(set); known {
		return turn.next.Load()
	}
	return r.starts
}

func (r *roundRobin) find(set workers.Identity) *rotation {
	r.mu.Lock()
	defer r.mu.Unlock()
	turn, known := r.sets.Get(set)
	if !known {
		turn = &rotation{set: set}
		turn.next.Store(r.starts)
		r.starts++
		r.sets.Add(set, turn)
	}
	r.latest.Store(turn)
	return turn
}

func (r *roundRobin) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets, _ = simplelru.NewLRU[workers.Identity, *rotation](rotations, nil) // the size is above 0: cannot fail
	r.starts = 0
	r.latest.Store(nil)
}
