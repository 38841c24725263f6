package policy

import (
	"slices"
	"sync"

	"github.com/smg-go/smg/workers"
)

// cursor goes round a ring, clockwise, once.
type cursor struct {
	ring   *ring
	arc, i int // the next point
	left   int // points to come
}

// from is a cursor at the first point at or behind a position.
func (r *ring) from(at uint64) cursor {
	arc := r.arcOf(at)
	i, _ := slices.BinarySearchFunc(r.arcs[arc], point{at: at}, byPosition)
	return cursor{r, arc, i, r.size}
}

// next is the point under the cursor, which moves on; ok is false when it has been everywhere.
func (c *cursor) next() (p point, ok bool) {
	if c.left == 0 {
		return point{}, false
	}
	for c.i == len(c.ring.arcs[c.arc]) {
		c.arc, c.i = (c.arc+1)%len(c.ring.arcs), 0
	}
	p = c.ring.arcs[c.arc][c.i]
	c.i++
	c.left--
	return p, true
}

// find is the place on the list of the first worker on it, clockwise from a position; -1 if none of the ring's is. Each worker is
// looked for once, so that it costs little more than one search when the owner itself is on the list.
func (r *ring) find(at uint64, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	var passed owners
	defer passed.release()
	for c := r.from(at); passed.n < r.count; {
		p, ok := c.next()
		if !ok {
			break
		}
		if !passed.add(p.owner, len(r.owners)) {
			continue
		}
		if i := among.Index(r.owners[p.owner]); i >= 0 {
			return i
		}
	}
	return -1
}

// owners is a set of owners' numbers: a few in place, more in a bit set that is reused.
type owners struct {
	few  [12]int32
	n    int
	many *[]uint64
}

var bitSets = sync.Pool{New: func() any { return new([]uint64) }}

// add tells whether the number is new; total is how many there can be.
func (o *owners) add(number int32, total int) (added bool) {
	if o.many == nil {
		if slices.Contains(o.few[:min(o.n, len(o.few))], number) {
			return false
		}
		if o.n < len(o.few) {
			o.few[o.n] = number
			o.n++
			return true
		}
		o.spread(total)
	}
	word, bit := &(*o.many)[number/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	o.n++
	return true
}

// spread goes on with a bit set.
func (o *owners) spread(total int) {
	o.many = bitSets.Get().(*[]uint64)
	words := (total + 63) / 64
	*o.many = slices.Grow((*o.many)[:0], words)[:words]
	clear(*o.many)
	for _, number := range o.few {
		(*o.many)[number/64] |= 1 << (number % 64)
	}
}

func (o *owners) release() {
	if o.many != nil {
		bitSets.Put(o.many)
	}
}

// turns is the distance from one position clockwise to another, as a share of the whole circle.
func turns(from, to uint64) float64 { return float64(to-from) / (1 << 64) }
