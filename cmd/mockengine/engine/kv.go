package engine

import (
	"errors"
	"math/bits"
)

// KVCache is the paged KV cache of an engine: pages that are computed are found again by what they hold and all that stands in front
// of it, until room is needed. Pages of running requests are pinned. Several models may share one, as if all engines had one memory.
// It is not safe for concurrent use.
type KVCache struct {
	capacity int     // pages
	reserved int     // pages that requests hold and that nobody finds: not computed yet, or an answer's
	pinned   int     // pages that are found and held
	found    int     // pages that are found: those that are pinned, and those in the ring
	changes  uint64  // counts what may make room for a request that had none
	buckets  []*page // by digest; the pages of one are linked by chain
	old      page    // ring of the pages that nobody holds: old.next is the first to go
	spare    *page   // evicted pages, to be used again, linked by next
}

// page is one page that can be found.
type page struct {
	digest     uint64 // 0 once it is evicted
	pins       int
	chain      *page // the next in its bucket
	next, prev *page // in the ring, while pins is 0
	after      *page // that stood behind it in some prompt; it may be another one by now, which its digest tells
}

// NewKVCache makes an empty cache of so many pages, at least one.
func NewKVCache(pages int) *KVCache {
	c := &KVCache{capacity: max(1, pages)}
	c.buckets = make([]*page, 1<<bits.Len(uint(c.capacity))) // more than pages
	c.old.next, c.old.prev = &c.old, &c.old
	return c
}

// Has tells whether the page of a digest is there.
func (c *KVCache) Has(digest uint64) bool { return c.find(digest) != nil }

func (c *KVCache) bucket(digest uint64) **page { return &c.buckets[digest&uint64(len(c.buckets)-1)] }

// find is the page of a digest; nil if it is not there.
func (c *KVCache) find(digest uint64) *page {
	p := *c.bucket(digest)
	for p != nil && p.digest != digest {
		p = p.chain
	}
	return p
}

// behind is the page of a digest that stands behind another one in a prompt, nil if it is not there. Most prompts go on as one before
// did, where a look at the
// buckets is saved.
func (c *KVCache) behind(last *page, digest uint64) *page {
	if last == nil {
		return c.find(digest)
	}
	if p := last.after; p != nil && p.digest == digest {
		return p
	}
	p := c.find(digest)
	if p != nil {
		last.after = p
	}
	return p
}

// matched is how many leading pages of a prompt are there.
func (c *KVCache) matched(prompt []uint64) int {
	var last *page
	for i, digest := range prompt {
		if last = c.behind(last, digest); last == nil {
			return i
		}
	}
	return len(prompt)
}

// grip is the pages that a request holds of its prompt, from the first on.
type grip []*page

// admit pins the leading pages of a prompt that are there, appended to held, and reserves so many others as the request needs beyond
// them. ok is false if there is no room, even if all goes that nobody holds; nothing has changed then.
func (c *KVCache) admit(held grip, prompt []uint64, needs int) (_ grip, ok bool) {
	held = held[:0]
	idle := 0 // of the matched, which the request would take from those that may go
	var last *page
	for _, digest := range prompt {
		if last = c.behind(last, digest); last == nil {
			break
		}
		held = append(held, last)
		if last.pins == 0 {
			idle++
		}
	}
	fresh := max(0, needs-len(held))
	if c.pinned+idle+c.reserved+fresh > c.capacity {
		return held[:0], false
	}
	for _, p := range held {
		c.pin(p)
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
	var last *page
	if len(held) > 0 {
		last = held[len(held)-1]
	}
	if p := c.behind(last, digest); p != nil {
		c.pin(p)
		return append(held, p)
	}
	p := c.spare
	if p == nil {
		p = &page{}
	} else {
		c.spare = p.next
	}
	b := c.bucket(digest)
	*p = page{digest: digest, pins: 1, chain: *b}
	*b = p
	c.found++
	c.pinned++
	if last != nil {
		last.after = p
	}
	return append(held, p)
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

func (c *KVCache) pin(p *page) {
	if p.pins++; p.pins > 1 {
		return
	}
	c.pinned++
	p.prev.next, p.next.prev = p.next, p.prev
	p.next, p.prev = nil, nil
}

func (c *KVCache) unpin(p *page) {
	if p.pins--; p.pins > 0 {
		return
	}
	c.pinned--
	p.prev, p.next = c.old.prev, &c.old
	p.prev.next, c.old.prev = p, p
}

// evict forgets the page that nobody has held for longest.
func (c *KVCache) evict() {
	p := c.old.next
	p.prev.next, p.next.prev = p.next, p.prev
	b := c.bucket(p.digest)
	for *b != p {
		b = &(*b).chain
	}
	*b = p.chain
	c.found--
	*p = page{next: c.spare}
	c.spare = p
}

// held is the number of pages that running requests hold.
func (c *KVCache) held() int { return c.pinned + c.reserved }

// flush forgets every page that nobody holds.
func (c *KVCache) flush() {
	for c.old.next != &c.old {
		c.evict()
	}
}

var errBooks = errors.New("KV cache: the books do not match the pages")

// check counts everything anew, for tests.
func (c *KVCache) check() error {
	pinned, idle := 0, 0
	for i := range c.buckets {
		for p := c.buckets[i]; p != nil; p = p.chain {
			if c.find(p.digest) != p || p.pins < 0 {
				return errBooks
			}
			if p.pins > 0 {
				pinned++
			}
		}
	}
	for p := c.old.next; p != &c.old; p = p.next {
		idle++
	}
	if pinned != c.pinned || pinned+idle != c.found || c.reserved < 0 || c.found+c.reserved > c.capacity {
		return errBooks
	}
	return nil
}
