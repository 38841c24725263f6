package policy

// frame is a node on the way of a walk, and the next of its children.
type frame struct {
	n    *node
	kids *kids
	next int
}

// climb calls f for every node but the root, children before their parents. It holds no lock, needs no more memory than the tree is
// deep, and what others change meanwhile it may miss.
func climb(root *node, f func(parent, n *node)) {
	way := []frame{{n: root, kids: root.kids.Load()}}
	for {
		top := &way[len(way)-1]
		if top.kids != nil && top.next < len(top.kids.slots) {
			c := top.kids.slots[top.next].Load()
			top.next++
			if c != nil && c != gone {
				way = append(way, frame{n: c, kids: c.kids.Load()})
			}
			continue
		}
		n := top.n
		way = way[:len(way)-1]
		if len(way) == 0 {
			return
		}
		f(way[len(way)-1].n, n)
	}
}

func (t *tree) climb(f func(parent, n *node)) {
	climb(&t.root, f)
	climb(&t.spaces, f)
}

// measure is how much of what an eviction wants a pair of node and tenant gives.
type measure func(n *node) int64

func inUnits(n *node) int64 { return int64(n.units) }

func inBytes(n *node) int64 { return max(1, n.bytes()/int64(max(1, n.count()))) }

// evict takes the pairs of node and tenant out that were used longest ago, until so much of them has gone, and every pair whose
// tenant is dead.
//
// A node's stamp is never older than those below it, because a request stamps the whole way. So the oldest pairs are all those up to
// some stamp, and no order has to be kept: one walk or two find the stamp, and one more takes them, leaves first. It works on two
// nodes at a time, and ends whatever is put in meanwhile. What was split for others is joined on the way.
func (t *tree) evict(excess int64, m measure) {
	e := eviction{tree: t, measure: m, missing: excess, oldest: 1}
	if excess > 0 {
		e.cutOff()
	}
	t.climb(e.take)
}

type eviction struct {
	tree    *tree
	measure measure
	missing int64  // of the measure
	oldest  uint64 // everything that is older goes
	newest  uint64 // of what is not, up to this one, as much as is missing
	expired []*tenant
}

// ageClasses is how finely one walk divides the time.
const ageClasses = 1024

// cutOff finds the stamps between which the eviction ends.
func (e *eviction) cutOff() {
	low, high := uint64(1), e.tree.memory.stamp.Load()
	missing, tenants := e.missing, &e.tree.tenants
	for range 4 {
		width := (high-low)/ageClasses + 1
		var weight [ageClasses]int64
		e.tree.climb(func(_, n *node) {
			w := e.measure(n)
			n.each(func(id uint32, stamp uint64) {
				if stamp >= low && stamp <= high && tenants.resident(id) != nil {
					weight[(stamp-low)/width] += w
				}
			})
		})
		i := 0
		for ; i < ageClasses-1 && weight[i] < missing; i++ {
			missing -= weight[i]
		}
		low += uint64(i) * width
		high = min(high, low+width-1)
		if width == 1 || weight[i] < e.missing/16 {
			break
		}
	}
	e.oldest, e.newest = low, high
}

// take takes what has to go off one node.
func (e *eviction) take(parent, n *node) {
	if n.ground {
		if n.kids.Load() == nil {
			e.tree.prune(parent, n)
		}
		return
	}
	e.expired = e.expired[:0]
	n.each(func(id uint32, stamp uint64) {
		who := e.tree.tenants.any(id)
		if who != nil && (who.dead.Load() || stamp < e.oldest || stamp <= e.newest) {
			e.expired = append(e.expired, who)
		}
	})
	for _, who := range e.expired {
		e.detach(parent, n, who)
	}
	e.tree.join(parent, n)
}

func (e *eviction) detach(parent, n *node, who *tenant) {
	if who.dead.Load() {
		e.tree.detach(parent, n, who, 0, ^uint64(0))
		return
	}
	newest := e.oldest - 1
	if e.missing > 0 {
		newest = max(newest, e.newest)
	}
	weight := e.measure(n)
	if e.tree.detach(parent, n, who, 0, newest) {
		e.missing -= weight
	}
}
