package policy

import "github.com/smg-go/smg/workers"

// visit is one request's look into the index: how much of its prompt is there, and who has how much.
type visit struct {
	index *prefixIndex

	name      treeName
	partition uint64
	key       string // what is matched and recorded: whole units
	input     int    // units of the whole prompt

	tree   *tree // nil: there is none yet
	origin *node // the root of the partition
	path   []step

	generation uint64
	marks      []mark // by the slots of workers
	best       int    // most units that some worker has
}

// mark is how much of the prompt a worker has.
type mark struct {
	generation uint64 // of the visit that it is of
	worker     *workers.Worker
	units      int
}

// matched is the end of the way.
func (v *visit) matched() step {
	if len(v.path) == 0 {
		return step{}
	}
	return v.path[len(v.path)-1]
}

// markHolders notes how much each worker has. Who has a node has all above it, so that a node which as many hold as the one below it
// has nothing new to tell.
func (v *visit) markHolders() {
	known, tenants := 0, &v.tree.tenants
	for i := len(v.path) - 1; i >= 0; i-- {
		step := &v.path[i]
		if n := step.n.count(); n == known {
			continue
		} else {
			known = n
		}
		step.n.each(func(id uint32, _ uint64) {
			if who := tenants.resident(id); who != nil {
				v.mark(who, step.units)
			}
		})
	}
}

func (v *visit) mark(who *tenant, units int) {
	if who.slot >= len(v.marks) {
		v.marks = append(v.marks, make([]mark, who.slot+1-len(v.marks))...)
	}
	m := &v.marks[who.slot]
	if m.generation != v.generation {
		*m = mark{v.generation, who.worker.Load(), units}
		v.best = max(v.best, units)
	}
}

// units is how many units of the prompt, from its start, a worker has.
func (v *visit) units(w *workers.Worker) int {
	slot := w.Slot()
	if slot >= len(v.marks) {
		return 0
	}
	if m := &v.marks[slot]; m.generation == v.generation && m.worker == w {
		return m.units
	}
	return 0
}

// touch stamps the nodes that a tenant has, from the root on, and returns how many these are.
func (v *visit) touch(id uint32, stamp uint64) int {
	for i := range v.path {
		s := v.path[i].n.stampOf(id)
		if s == nil {
			return i
		}
		if i == len(v.path)-1 && !v.endsWith(i) {
			return i // it goes on within the edge: the node has to be split
		}
		s.Store(stamp)
	}
	return len(v.path)
}

// endsWith tells whether the way leaves the i-th node only behind its edge, or the key ends in it.
func (v *visit) endsWith(i int) bool {
	start := 0
	if i > 0 {
		start = v.path[i-1].bytes
	}
	return v.path[i].bytes == len(v.key) || v.path[i].bytes-start == len(v.path[i].n.edge)
}

// close gives the visit back.
func (v *visit) close() {
	clear(v.path)
	v.path, v.key, v.tree, v.origin = v.path[:0], "", nil, nil
	v.index.visits.Put(v)
}
