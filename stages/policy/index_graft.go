package policy

// graft puts a worker on the way of a key: on the nodes that are there, and on new ones for the rest.
//
// It goes down with two locks at a time. The new nodes are made while none is held: a chain for the part of the key that is known to
// be missing. If somebody else has put it there meanwhile, the chain is thrown away and the way is gone once more.
type graft struct {
	tree  *tree
	who   *tenant
	stamp uint64
	key   string

	bytes, units int // where in the key the way has come to

	chain chain

	added   int64 // units that the worker was newly put on
	entries int64 // nodes
	grown   int64 // bytes, the chain aside
	fresh   int   // units in front of the first node that it was newly put on; below 0: there is none
}

// chain is new nodes, one below the other.
type chain struct {
	top   *node
	at    int // where in the key it begins; below 0: there is none
	bytes int64
	units int64
	nodes int64
}

// attempts is how often a graft begins anew because others were quicker; then the prompt is not recorded. Each time somebody else has
// made progress.
const attempts = 16

// attach records a key for a tenant, held is the part of the way, from the root, whose nodes have the tenant already. It returns how
// many units are in front of what the tenant was newly put on; below 0 if there is nothing.
func (t *tree) attach(v *visit, who *tenant, stamp uint64, held int) (fresh int) {
	g := graft{tree: t, who: who, stamp: stamp, key: v.key, fresh: -1, chain: chain{at: -1}}
	g.prepare(v.matched().bytes)
	from, start := v.origin, step{}
	if held > 0 {
		start = v.path[held-1]
		from = start.n
	}
	for range attempts {
		if g.walk(g.lock(from, v.partition, start)) {
			break
		}
		if g.chain.at != g.bytes && !g.prepare(g.bytes) {
			break
		}
		from, start = nil, step{}
	}
	g.settle()
	return g.fresh
}

// lock locks the node that the walk begins at: the given one if it still is in the tree and has the worker, else the root.
func (g *graft) lock(from *node, partition uint64, start step) *node {
	g.bytes, g.units = start.bytes, start.units
	if from != nil {
		from.mu.Lock()
		if !from.dead && (from.ground || from.stampOf(g.who.id) != nil) {
			return from
		}
		from.mu.Unlock()
	}
	g.bytes, g.units = 0, 0
	return g.tree.ground(partition)
}

// ground is the root of a partition, locked; it is made if it has to be.
func (t *tree) ground(partition uint64) *node {
	if partition == 0 {
		t.root.mu.Lock()
		return &t.root
	}
	t.spaces.mu.Lock()
	defer t.spaces.mu.Unlock()
	h := partitionHead(partition)
	n := t.spaces.child(h)
	if n == nil {
		n = &node{edge: h.bytes, head: h.digest, ground: true}
		t.count(t.spaces.adopt(n) + n.bytes())
	}
	n.mu.Lock()
	return n
}

// walk goes down from a node that is locked, and leaves it unlocked. It returns false if new nodes are needed that were not prepared.
func (g *graft) walk(parent *node) bool {
	defer func() { parent.mu.Unlock() }()
	for g.bytes < len(g.key) {
		rest := g.key[g.bytes:]
		c := parent.child(g.tree.head(rest))
		if c == nil {
			return g.link(parent)
		}
		m := g.tree.common(c.edge, rest)
		if m == 0 {
			return true // within a character, so it is not UTF-8: the rest is not recorded
		}
		c.mu.Lock()
		if m < len(c.edge) && (m < len(rest) || c.stampOf(g.who.id) == nil) {
			upper, grown := g.tree.split(parent, c, m)
			c, g.grown = upper, g.grown+grown
		}
		g.hold(c)
		parent.mu.Unlock()
		parent = c
		g.units += g.tree.part(c, m)
		g.bytes += m
	}
	return true
}

// hold puts the worker on a node that is locked, or stamps it.
func (g *graft) hold(n *node) {
	if stamp := n.stampOf(g.who.id); stamp != nil {
		stamp.Store(g.stamp)
		return
	}
	g.grown += n.hold(g.who.id, g.stamp)
	g.added += int64(n.units)
	g.entries++
	g.note(g.units)
}

func (g *graft) note(units int) {
	if g.fresh < 0 || units < g.fresh {
		g.fresh = units
	}
}

// split replaces a child of a node by two, of which the upper has the first m bytes of its edge. Both are locked; the child is
// unlocked, and the upper one is returned locked, with the bytes that are taken. Those who read the old one meanwhile find all that
// they would find in the new ones.
func (t *tree) split(parent, c *node, m int) (upper *node, grown int64) {
	upper, lower := t.newNode(c.edge[:m]), t.newNode(c.edge[m:])
	grown = upper.inherit(&c.holders) + lower.inherit(&c.holders) - c.moreBytes()
	lower.kids.Store(c.kids.Load())
	grown += upper.adopt(lower) + upper.bytes() + lower.bytes() - c.bytes()
	t.onNodes(c, 1)
	upper.mu.Lock()
	parent.replace(c, upper)
	c.dead = true
	c.mu.Unlock()
	return upper, grown
}

// onNodes counts that every tenant of a node is on so many more.
func (t *tree) onNodes(n *node, more int64) {
	n.each(func(id uint32, _ uint64) {
		if who := t.tenants.any(id); who != nil {
			t.credit(who, 0, more)
		}
	})
}

// prepare makes the chain for the key from a place on. It returns false if there is no room for it.
func (g *graft) prepare(at int) bool {
	g.discard()
	if at >= len(g.key) {
		return true
	}
	made := chain{at: at, bytes: g.cost(g.key[at:])}
	if !g.tree.memory.take(made.bytes) {
		return false
	}
	var last *node
	for rest := g.key[at:]; rest != ""; {
		n := g.tree.cut(rest, maxEdge)
		next := g.tree.newNode(rest[:n])
		next.hold(g.who.id, g.stamp)
		made.units += int64(next.units)
		made.nodes++
		if last == nil {
			made.top = next
		} else {
			last.adopt(next)
		}
		last, rest = next, rest[n:]
	}
	g.chain = made
	return true
}

// cost is the bytes of a chain.
func (g *graft) cost(key string) (bytes int64) {
	for key != "" {
		n := g.tree.cut(key, maxEdge)
		bytes += nodeBytes + allocated(int64(n))
		if key = key[n:]; key != "" {
			bytes += onlyChildBytes
		}
	}
	return bytes
}

// onlyChildBytes is the table of a node with one child.
var onlyChildBytes = (&kids{}).rebuilt(1).bytes()

// link puts the chain in, if it is the one that is needed here.
func (g *graft) link(parent *node) bool {
	if g.chain.at != g.bytes {
		return false
	}
	g.grown += parent.adopt(g.chain.top)
	g.added += g.chain.units
	g.entries += g.chain.nodes
	g.tree.bytes.Add(g.chain.bytes) // it was taken from the memory before
	g.note(g.units)
	g.chain = chain{at: -1}
	return true
}

// discard gives the room of a chain back that nobody needs.
func (g *graft) discard() {
	if g.chain.at >= 0 {
		g.tree.memory.add(-g.chain.bytes)
	}
	g.chain = chain{at: -1}
}

// settle counts what was done.
func (g *graft) settle() {
	g.discard()
	g.tree.credit(g.who, g.added, g.entries)
	g.tree.count(g.grown)
}
