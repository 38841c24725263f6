package policy

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// node is a place in a tree: its edge leads there from its parent. Requests read nodes without a lock; whoever changes one holds its
// lock, and takes the parent's before the child's. Its edge never changes: to split a node is to replace it.
//
// Who holds a node holds every node above it. That is kept by two rules: a worker is put on a node while the parent, which it
// holds, is locked; and it is taken off a node, with that node locked, only if no child has it.
type node struct {
	edge string // a copy of its own, or the request would be kept
	mu   sync.Mutex
	kids atomic.Pointer[kids]
	holders
	head   uint32 // digest of its edge's head
	units  uint16 // of the edge; 0 for the root of a partition
	ground bool   // it is the root of a tree or partition: nobody is listed there, and everybody holds it
	dead   bool   // it is not in the tree any more; guarded by mu
}

// head is what a node is found by among its parent's children.
type head struct {
	digest uint32
	bytes  string // the first page; "" for text, whose first character is the digest
}

// is tells whether the node begins with that head.
func (n *node) is(h head) bool {
	return n.head == h.digest && len(n.edge) >= max(1, len(h.bytes)) && n.edge[:len(h.bytes)] == h.bytes
}

// maxEdge is the greatest length of an edge in bytes, pages longer than that aside. It bounds the time that a split takes.
const maxEdge = 4096

var nodeBytes = allocated(int64(unsafe.Sizeof(node{})))

// bytes is what the node takes without its children's table and its other holders.
func (n *node) bytes() int64 { return nodeBytes + allocated(int64(len(n.edge))) }

// child is the child with that head; nil if there is none. It needs no lock.
func (n *node) child(h head) *node {
	if k := n.kids.Load(); k != nil {
		return k.find(h)
	}
	return nil
}

// adopt puts a child in; the node is locked. It returns by how many bytes the node has grown.
func (n *node) adopt(c *node) int64 {
	k := n.kids.Load()
	if k == nil || !k.roomFor() {
		was := k
		k = was.rebuilt(1)
		k.put(c)
		n.kids.Store(k)
		return k.bytes() - was.bytes()
	}
	k.put(c)
	return 0
}

// replace puts one child in the place of another with the same head; the node is locked.
func (n *node) replace(was, now *node) { n.kids.Load().slotOf(was).Store(now) }

// disown takes a child out; the node is locked. It returns by how many bytes the node has grown, which is negative.
func (n *node) disown(c *node) int64 {
	k := n.kids.Load()
	k.remove(c)
	switch {
	case k.live == 0:
		n.kids.Store(nil)
		return -k.bytes()
	case len(k.slots) > 16 && int(k.live) < len(k.slots)/8:
		smaller := k.rebuilt(0)
		n.kids.Store(smaller)
		return smaller.bytes() - k.bytes()
	}
	return 0
}

// inherited tells whether a child has the worker.
func (n *node) inherited(id uint32) bool {
	k := n.kids.Load()
	if k == nil {
		return false
	}
	for i := range k.slots {
		if c := k.slots[i].Load(); c != nil && c.stampOf(id) != nil {
			return true
		}
	}
	return false
}

// kids is a table of children by their heads. It is read while it is written: a slot goes from nil to a child, from one child to
// another with the same head, or to gone, and a table that is full is replaced by another.
type kids struct {
	slots []atomic.Pointer[node] // a power of two
	used  int32                  // slots that are not nil
	live  int32                  // of them, those with a child
}

// gone is in the place of a child that was taken out, so that a search goes on behind it. It has no edge, and so no head.
var gone = &node{}

// mayBeFull is how many slots a table may have that uses them all. A larger one keeps a quarter free, so that a search ends soon.
const mayBeFull = 4

// newKids makes an empty table. A small one is one piece of memory.
func newKids(size int) *kids {
	switch size {
	case 1:
		k := &struct {
			kids
			room [1]atomic.Pointer[node]
		}{}
		k.slots = k.room[:]
		return &k.kids
	case 2:
		k := &struct {
			kids
			room [2]atomic.Pointer[node]
		}{}
		k.slots = k.room[:]
		return &k.kids
	case 4:
		k := &struct {
			kids
			room [4]atomic.Pointer[node]
		}{}
		k.slots = k.room[:]
		return &k.kids
	}
	return &kids{slots: make([]atomic.Pointer[node], size)}
}

func (k *kids) bytes() int64 {
	if k == nil {
		return 0
	}
	header, slots := int64(unsafe.Sizeof(kids{})), int64(len(k.slots))*8
	if len(k.slots) <= 4 {
		return allocated(header + slots)
	}
	return header + allocated(slots)
}

// only is the child if there is no other; nil if there are more, or none.
func (k *kids) only() (one *node) {
	if k == nil {
		return nil
	}
	for i := range k.slots {
		if c := k.slots[i].Load(); c != nil && c != gone {
			if one != nil {
				return nil
			}
			one = c
		}
	}
	return one
}

func (k *kids) find(h head) *node {
	at := home(h.digest)
	for i := range k.slots {
		c := k.slots[(at+i)&(len(k.slots)-1)].Load()
		if c == nil || c.is(h) {
			return c
		}
	}
	return nil
}

// home is where a search begins, but for the size of the table. Characters of ASCII, next to each other as they are in most text, do not
// collide there; what is beyond, a multiplication spreads.
func home(digest uint32) int {
	return int(uint64(digest) + uint64(digest>>8)*0x9e3779b97f4a7c15>>32)
}

// room is how many children a table of so many slots takes.
func room(slots int) int {
	if slots <= mayBeFull {
		return slots
	}
	return slots / 4 * 3
}

// roomFor tells whether one more child fits.
func (k *kids) roomFor() bool { return int(k.used) < room(len(k.slots)) }

func (k *kids) put(c *node) {
	for i := home(c.head); ; i++ {
		slot := &k.slots[i&(len(k.slots)-1)]
		if slot.Load() == nil {
			slot.Store(c)
			k.used++
			k.live++
			return
		}
	}
}

// slotOf is where a child is that is in the table.
func (k *kids) slotOf(c *node) *atomic.Pointer[node] {
	i := home(c.head)
	for k.slots[i&(len(k.slots)-1)].Load() != c {
		i++
	}
	return &k.slots[i&(len(k.slots)-1)]
}

func (k *kids) remove(c *node) {
	k.slotOf(c).Store(gone)
	k.live--
}

// rebuilt is a table with the same children and room for some more; k may be nil.
func (k *kids) rebuilt(more int) *kids {
	need := more
	if k != nil {
		need += int(k.live)
	}
	size := 1
	for room(size) < need {
		size *= 2
	}
	fresh := newKids(size)
	if k != nil {
		for i := range k.slots {
			if c := k.slots[i].Load(); c != nil && c != gone {
				fresh.put(c)
			}
		}
	}
	return fresh
}

// allocated is what an allocation of so many bytes takes: allocations come in classes, on average an eighth apart.
func allocated(bytes int64) int64 {
	switch {
	case bytes <= 0:
		return 0
	case bytes <= 128:
		return (bytes + 15) &^ 15
	case bytes > 32<<10:
		return (bytes + 8191) &^ 8191
	}
	step := int64(1) << (bits64(bytes-1) - 4) // eight classes from one power of two to the next
	return (bytes + step - 1) &^ (step - 1)
}
