package policy

import "slices"

// attach makes a worker a holder of a page that it does not hold. The index's lock is held, here and below.
func (ix *workIndex) attach(p *workPage, slot int32, stamp uint64) {
	if p.slot < 0 {
		p.slot, p.stamp = slot, stamp
		return
	}
	had := cap(p.more)
	i, _ := p.search(slot)
	p.more = slices.Insert(p.more, i, holding{stamp, slot})
	ix.memory.add(int64(cap(p.more)-had) * bytesOfHolding)
}

// detach takes a holder off a page. A page without one is free.
func (ix *workIndex) detach(number uint32, slot int32) {
	p := ix.page(number)
	switch {
	case p.slot != slot:
		if i, found := p.search(slot); found {
			p.more = slices.Delete(p.more, i, i+1)
		}
	case len(p.more) > 0:
		last := p.more[0]
		p.slot, p.stamp = last.slot, last.stamp
		p.more = slices.Delete(p.more, 0, 1)
	default:
		p.slot = -1
	}
	if p.slot < 0 {
		ix.release(number)
	}
}

func (ix *workIndex) release(number uint32) {
	p := ix.page(number)
	delete(ix.pages, p.hash)
	ix.memory.add(-int64(cap(p.more)) * bytesOfHolding)
	*p = workPage{slot: -1, parent: ix.free}
	ix.free = number
}

// add makes a page that nobody holds yet; 0 if there is no memory for it.
func (ix *workIndex) add(hash uint64, parent uint32) uint32 {
	if ix.free == 0 && !ix.extend() {
		return 0
	}
	number := ix.free
	p := ix.page(number)
	ix.free = p.parent
	*p = workPage{hash: hash, parent: parent, slot: -1}
	ix.pages[hash] = number
	return number
}

// extend makes room for more pages. It is not given back before the index is empty.
func (ix *workIndex) extend() bool {
	if !ix.memory.take(pagesOfChunk * bytesOfPage) {
		return false
	}
	chunk := make([]workPage, pagesOfChunk)
	ix.chunks = append(ix.chunks, chunk)
	for i := range chunk {
		ix.made++
		chunk[i] = workPage{slot: -1, parent: ix.made + 1}
	}
	chunk[pagesOfChunk-1].parent = ix.free
	ix.free = ix.made - pagesOfChunk + 1
	return true
}

// clear gives everything back, when no worker is left that could hold anything.
func (ix *workIndex) clear() {
	ix.memory.add(-int64(len(ix.chunks)) * pagesOfChunk * bytesOfPage)
	ix.pages, ix.chunks, ix.made, ix.free = map[uint64]uint32{}, nil, 0, 0
}
