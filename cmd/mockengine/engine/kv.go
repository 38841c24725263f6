package engine

import "errors"

// KVCache is the paged KV cache of an engine: pages that are computed are found again by what they hold and all that stands in front
// of it, until room is needed. Pages of running requests are pinned. Several models may share one, as if all engines had one memory.
// It is not safe for concurrent use.
type KVCache struct {
	capacity int // pages
	reserved int // pages that requests hold and that nobody finds: not computed yet, an answer's, or a double
	pinned   int // pages that are found and held
	pages    map[uint64]*page
	old      page  // ring of the pages that nobody holds: old.next is the first to go
	spare    *page // evicted pages, to be used again, linked by next
}

// page is one page that can be found.
type page struct {
	digest     uint64
	pins       int
	next, prev *page // in the ring, while pins is 0
}

// NewKVCache makes an empty cache of so many pages, at least one.
func NewKVCache(pages int) *KVCache {
	c := &KVCache{capacity: max(1, pages), pages: map[uint64]*page{}}
	c.old.next, c.old.prev = &c.old, &c.old
	return c
}

// Has tells whether the page of a digest is there.
func (c *KVCache) Has(digest uint64) bool { return c.pages[digest] != nil }

// matched is how many leading pages of a prompt are there.
func (c *KVCache) matched(prompt []uint64) int {
	for i, digest := range prompt {
		if c.pages[digest] == nil {
			return i
		}
	}
	return len(prompt)
}

// admit pins the leading pages of a prompt that are there, and reserves so many others as the request needs beyond them. ok is false
// if there is no room, even if all goes that nobody holds; nothing has changed then.
func (c *KVCache) admit(prompt []uint64, needs int) (matched int, ok bool) {
	matched = c.matched(prompt)
	idle := 0 // of the matched, which the request would take from those that may go
	for _, digest := range prompt[:matched] {
		if c.pages[digest].pins == 0 {
			idle++
		}
	}
	fresh := max(0, needs-matched)
	if c.pinned+idle+c.reserved+fresh > c.capacity {
		return 0, false
	}
	for _, digest := range prompt[:matched] {
		c.pin(c.pages[digest])
	}
	for len(c.pages)+c.reserved+fresh > c.capacity {
		c.evict()
	}
	c.reserved += fresh
	return matched, true
}

// fill makes a reserved page one that is found, held by who reserved it; false if there is such a page already: then it stays a
// double, as in engines.
func (c *KVCache) fill(digest uint64) bool {
	if c.pages[digest] != nil {
		return false
	}
	p := c.spare
	if p == nil {
		p = &page{}
	} else {
		c.spare = p.next
	}
	*p = page{digest: digest, pins: 1}
	c.pages[digest] = p
	c.reserved--
	c.pinned++
	return true
}

// release gives back reserved pages, and those of a prompt that were pinned or filled. The deepest are the first to go later, so no
// page outlives what stands in front of it.
func (c *KVCache) release(prompt []uint64, reserved int) {
	c.reserved -= reserved
	for i := len(prompt) - 1; i >= 0; i-- {
		c.unpin(c.pages[prompt[i]])
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
	delete(c.pages, p.digest)
	p.next, p.prev = c.spare, nil
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
	for digest, p := range c.pages {
		if p.digest != digest || p.pins < 0 {
			return errBooks
		}
		if p.pins > 0 {
			pinned++
		}
	}
	for p := c.old.next; p != &c.old; p = p.next {
		idle++
	}
	if pinned != c.pinned || pinned+idle != len(c.pages) || c.reserved < 0 || len(c.pages)+c.reserved > c.capacity {
		return errBooks
	}
	return nil
}
