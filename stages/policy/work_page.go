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
	ix.hold(cap(p.more) - had)
}

// hold counts room for so many more holdings besides the first, or fewer.
func (ix *workIndex) hold(n int) {
	bytes := int64(n) * bytesOfHolding
	ix.holdings += bytes
	ix.memory.add(bytes)
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
	if !follows(number, p.parent) {
		ix.table.remove(p.hash, number)
	}
	ix.hold(-cap(p.more))
	ix.vacate(number)
	ix.orphaned(number + 1)
}

// orphaned puts a page into the table whose parent is gone that it stood right behind: it is a removed worker's, not collected yet.
func (ix *workIndex) orphaned(number uint32) {
	if number > ix.made {
		return
	}
	if p := ix.page(number); p.holders() > 0 && follows(number, p.parent) {
		p.parent = 0
		ix.table.put(p.hash, number)
	}
}

// follows tells whether a page stands right behind its parent: then it is found there, and is not in the table.
func follows(number, parent uint32) bool { return parent != 0 && number == parent+1 }

// vacate puts a number in front of those that are free. Of these each names the next one as its parent, and the one in front of it as
// its stamp.
func (ix *workIndex) vacate(number uint32) {
	if ix.free != 0 {
		ix.page(ix.free).stamp = uint64(number)
	}
	*ix.page(number) = workPage{slot: -1, parent: ix.free}
	ix.free = number
}

// occupy takes a number from those that are free.
func (ix *workIndex) occupy(number uint32) {
	p := ix.page(number)
	before, next := uint32(p.stamp), p.parent
	if before == 0 {
		ix.free = next
	} else {
		ix.page(before).parent = next
	}
	if next != 0 {
		ix.page(next).stamp = uint64(before)
	}
}

// add makes a page that nobody holds yet, behind its parent if that place is free; 0 if there is no memory for it.
func (ix *workIndex) add(hash uint64, parent uint32) uint32 {
	if ix.free == 0 && !ix.extend() {
		return 0
	}
	number := ix.free
	if parent > 0 && parent < ix.made && ix.page(parent+1).holders() == 0 {
		number = parent + 1
	}
	if !follows(number, parent) {
		ix.table.put(hash, number)
	}
	ix.occupy(number)
	*ix.page(number) = workPage{hash: hash, parent: parent, slot: -1}
	return number
}

// move puts a page behind another parent.
func (ix *workIndex) move(number, parent uint32) {
	p := ix.page(number)
	if p.parent == parent {
		return
	}
	if follows(number, parent) { // it is in the table, for else it had been found behind its parent only
		ix.table.remove(p.hash, number)
	}
	p.parent = parent
}

// extend makes room for more pages. It is not given back before the index is empty.
func (ix *workIndex) extend() bool {
	if !ix.memory.take(pagesOfChunk * bytesOfPage) {
		return false
	}
	ix.chunks = append(ix.chunks, make([]workPage, pagesOfChunk))
	ix.made += pagesOfChunk
	for number := ix.made; number > ix.made-pagesOfChunk; number-- {
		ix.vacate(number)
	}
	return true
}

// clear gives everything back, when no worker is left that could hold anything.
func (ix *workIndex) clear() {
	ix.memory.add(-int64(len(ix.chunks))*pagesOfChunk*bytesOfPage - ix.holdings)
	ix.table, ix.chunks, ix.made, ix.free, ix.holdings = pageTable{}, nil, 0, 0, 0
}
