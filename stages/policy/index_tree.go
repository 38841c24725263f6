package policy

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
)

// tree is a compressed radix tree of prompts: the prefixes that were sent to workers, and to whom each. Requests match without a
// lock; those that record something new lock the nodes that change, two at a time.
type tree struct {
	grain
	limit  int64 // units, summed over the workers; beyond it the oldest go
	memory *indexMemory

	root   node // of what belongs to no partition
	spaces node // its children are the roots of the partitions, which share nothing

	total atomic.Int64 // units of the live tenants
	bytes atomic.Int64

	tenants tenancy
}

func newTree(g grain, limit int64, m *indexMemory) *tree {
	t := &tree{grain: g, limit: limit, memory: m}
	t.root.ground, t.spaces.ground = true, true
	t.tenants.byID.Store(&[]*tenant{nil}) // 0 is nobody
	return t
}

// step is one node of the way that a key takes, and where in the key it ends: for the last one perhaps within its edge.
type step struct {
	n     *node
	bytes int
	units int
}

// origin is the root of a partition; nil if nothing is in it. 0 is no partition.
func (t *tree) origin(partition uint64) *node {
	if partition == 0 {
		return &t.root
	}
	return t.spaces.child(partitionHead(partition))
}

// partitionHead is what the root of a partition is found by.
func partitionHead(partition uint64) head {
	return head{uint32(partition), string(binary.LittleEndian.AppendUint64(make([]byte, 0, 8), partition))}
}

// descend appends the way of a key as far as it is in the tree.
func (t *tree) descend(path []step, key string, partition uint64) []step {
	n := t.origin(partition)
	if n == nil {
		return path
	}
	bytes, units := 0, 0
	for bytes < len(key) {
		c := n.child(t.head(key[bytes:]))
		if c == nil {
			break
		}
		m := t.common(c.edge, key[bytes:])
		if m == 0 {
			break // within a character: the text is not UTF-8
		}
		bytes += m
		units += t.part(c, m)
		path = append(path, step{c, bytes, units})
		if m < len(c.edge) {
			break
		}
		n = c
	}
	return path
}

// part is the units of the first m bytes of a node's edge.
func (t *tree) part(n *node, m int) int {
	switch {
	case m == len(n.edge):
		return int(n.units)
	case t.page == 0 && len(n.edge) == int(n.units):
		return m // ASCII
	}
	return t.units(n.edge[:m])
}

// newNode makes a node with a copy of the edge. Its bytes are not counted yet.
func (t *tree) newNode(edge string) *node {
	return &node{edge: strings.Clone(edge), head: t.head(edge).digest, units: uint16(t.units(edge))}
}

// count adds to the bytes that the tree and all indexes take.
func (t *tree) count(bytes int64) {
	t.bytes.Add(bytes)
	t.memory.add(bytes)
}

// detach takes a tenant off a node if its stamp there is within the bounds and no child has it. A node that nobody holds goes. It
// tells whether it was done; it may be refused because the tree has changed.
func (t *tree) detach(parent, n *node, who *tenant, oldest, newest uint64) bool {
	parent.mu.Lock()
	defer parent.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead || parent.dead {
		return false
	}
	stamp := n.stampOf(who.id)
	if stamp == nil || stamp.Load() < oldest || stamp.Load() > newest || n.inherited(who.id) {
		return false
	}
	grown := n.release(who.id)
	t.credit(who, -int64(n.units), -1)
	grown += t.drop(parent, n)
	t.count(grown)
	return true
}

// prune removes the root of a partition that has nothing in it any more.
func (t *tree) prune(parent, n *node) {
	parent.mu.Lock()
	defer parent.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.dead && !parent.dead {
		t.count(t.drop(parent, n))
	}
}

// drop takes a node that has neither holders nor children out of the tree, and returns the bytes that it takes, which is negative.
// Both are locked.
func (t *tree) drop(parent, n *node) int64 {
	if n.count() > 0 || n.kids.Load() != nil {
		return 0
	}
	n.dead = true
	return parent.disown(n) - n.bytes()
}
