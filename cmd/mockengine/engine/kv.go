package engine

import (
	"errors"
	"math/bits"
	"slices"
)

// KVCache is the paged KV cache of an engine: pages that are computed are found again by what they hold and all that stands in front
// of it, until room is needed. Pages of running requests are pinned. Several models may share one, as if all engines had one memory.
// It is not safe for concurrent use.
type KVCache struct {
	capacity int      // pages
	reserved int      // pages that requests hold and that nobody finds: not computed yet, or an answer's
	pinned   int      // pages that are found and held
	found    int      // pages that are found: those that are pinned, and those in the ring
	changes  uint64   // counts what may make room for a request that had none
	buckets  []pageNo // by digest; the pages of one are linked by chain
	pages    []page   // by number. The first is none: it begins the ring of the pages that nobody holds, its next is the first to go
	spare    pageNo   // evicted pages, to be used again, linked by next
}

// pageNo is the number of a page, 0 for none. Numbers in the place of pointers keep the collector of garbage away from the pages.
type pageNo uint32

// page is one page that can be found.
type page struct {
	digest     uint64 // 0 once it is evicted
	pins       int32
	chain      pageNo // the next in its bucket
	next, prev pageNo // in the ring, while pins is 0
	after      pageNo // that stood behind it in some prompt; it may be another one by now, which its digest tells
}

// NewKVCache makes an empty cache of so many pages, at least one.
func NewKVCache(pages int) *KVCache {
	c := &KVCache{capacity: max(1, pages), pages: make([]page, 1, max(1, pages)+1)}
	c.buckets = make([]pageNo, 4<<bits.Len(uint(c.capacity))) // some times the pages: most that are looked up are not there
	return c
}

// Has tells whether the page of a digest is there.
func (c *KVCache) Has(digest uint64) bool { return c.find(digest) != 0 }

func (c *KVCache) bucket(digest uint64) *pageNo { return &c.buckets[digest&uint64(len(c.buckets)-1)] }

// find is the page of a digest; 0 if it is not there.
func (c *KVCache) find(digest uint64) pageNo {
	n := *c.bucket(digest)
	for n != 0 && c.pages[n].digest != digest {
		n = c.pages[n].chain
	}
	return n
}

// behind is the page of a digest that stands behind another one in a prompt, 0 if it is not there. Most prompts go on as one before did,
// where a look at the buckets is saved.
func (c *KVCache) behind(last pageNo, digest uint64) pageNo {
	if last == 0 {
		return c.find(digest)
	}
	if n := c.pages[last].after; n != 0 && c.pages[n].digest == digest {
		return n
	}
	n := c.find(digest)
	if n != 0 {
		c.pages[last].after = n
	}
	return n
}

// matched is how many leading pages of a prompt are there.
func (c *KVCache) matched(prompt []uint64) int {
	last := pageNo(0)
	for i, digest := range prompt {
		if last = c.behind(last, digest); last == 0 {
			return i
		}
	}
	return len(prompt)
}

// grip is the pages that a request holds of its prompt, from the first on.
type grip []pageNo

// admit pins the leading pages of a prompt that are there, appended to held, and reserves so many others as the request needs beyond
// them. ok is false if there is no room, even if all goes that nobody holds; nothing has changed then.
func (c *KVCache) admit(held grip, prompt []uint64, needs int) (_ grip, ok bool) {
	held = slices.Grow(held[:0], len(prompt))
	idle := 0 // of the matched, which the request would take from those that may go
	last := pageNo(0)
	for _, digest := range prompt {
		if last = c.behind(last, digest); last == 0 {
			break
		}
		held = append(held, last)
		if c.pages[last].pins == 0 {
			idle++
		}
	}
	fresh := max(0, needs-len(held))
	if c.pinned+idle+c.reserved+fresh > c.capacity {
		return held[:0], false
	}
	for _, n := range held {
		c.pin(n)
	}
	for c.found+c.reserved+fresh > c.capacity {
		c.evict()
	}
	c.reserved += fresh
	return held, true
}

// fill makes a reserved page one that is found, and holds it for who reserved it. If there is such a page already, because another has
// computed it too, that one is held, and the double given back.
func (c *KVCache) fill(held grip, digest uint64) grip {
	c.changes++
	c.reserved--
	last := pageNo(0)
	if len(held) > 0 {
		last = held[len(held)-1]
	}
	if n := c.behind(last, digest); n != 0 {
		c.pin(n)
		return append(held, n)
	}
	n := c.spare
	if n == 0 {
		n = pageNo(len(c.pages))
		c.pages = append(c.pages, page{})
	} else {
		c.spare = c.pages[n].next
	}
	b := c.bucket(digest)
	c.pages[n] = page{digest: digest, pins: 1, chain: *b}
	*b = n
	c.found++
	c.pinned++
	if last != 0 {
		c.pages[last].after = n
	}
	return append(held, n)
}

// release gives back what a request holds, and what it has reserved beside. The deepest pages are the first to go later, so no page
// outlives what stands in front of it.
func (c *KVCache) release(held grip, reserved int) {
	c.changes++
	c.reserved -= reserved
	for i := len(held) - 1; i >= 0; i-- {
		c.unpin(held[i])
	}
}

func (c *KVCache) pin(n pageNo) {
	p := &c.pages[n]
	if p.pins++; p.pins > 1 {
		return
	}
	c.pinned++
	c.pages[p.prev].next, c.pages[p.next].prev = p.next, p.prev
}

func (c *KVCache) unpin(n pageNo) {
	p := &c.pages[n]
	if p.pins--; p.pins > 0 {
		return
	}
	c.pinned--
	ring := &c.pages[0]
	p.prev, p.next = ring.prev, 0
	c.pages[p.prev].next, ring.prev = n, n
}

// evict forgets the page that nobody has held for longest.
func (c *KVCache) evict() {
	n := c.pages[0].next
	p := &c.pages[n]
	c.pages[p.prev].next, c.pages[p.next].prev = p.next, p.prev
	b := c.bucket(p.digest)
	for *b != n {
		b = &c.pages[*b].chain
	}
	*b = p.chain
	c.found--
	*p = page{next: c.spare}
	c.spare = n
}

// held is the number of pages that running requests hold.
func (c *KVCache) held() int { return c.pinned + c.reserved }

// flush forgets every page that nobody holds.
func (c *KVCache) flush() {
	for c.pages[0].next != 0 {
		c.evict()
	}
}

var errBooks = errors.New("KV cache: the books do not match the pages")

// check counts everything anew, for tests.
func (c *KVCache) check() error {
	pinned, idle := 0, 0
	for i := range c.buckets {
		for n := c.buckets[i]; n != 0; n = c.pages[n].chain {
			if c.find(c.pages[n].digest) != n || c.pages[n].pins < 0 {
				return errBooks
			}
			if c.pages[n].pins > 0 {
				pinned++
			}
		}
	}
	for n := c.pages[0].next; n != 0; n = c.pages[n].next {
		idle++
	}
	if pinned != c.pinned || pinned+idle != c.found || c.reserved < 0 || c.found+c.reserved > c.capacity {
		return errBooks
	}
	return nil
}
