package policy

import "slices"

// attach makes a worker a holder of a page that it does not hold; false if there is no memory for it. The index's lock is held, here
// and below.
func (ix *workIndex) attach(p *workPage, slot int32, stamp uint64) bool {
	if p.slot < 0 {
		p.slot, p.stamp = slot, stamp
		return true
	}
	if n := cap(p.more); len(p.more) == n {
		if !ix.memory.take(int64(max(1, n)) * bytesOfHolding) {
			return false
		}
		ix.resize(p, n+max(1, n))
	}
	i, _ := p.search(slot)
	p.more = slices.Insert(p.more, i, holding{stamp, slot})
	return true
}

// resize gives a page room for so many holders besides the first. Of the memory, what it takes more was reserved.
func (ix *workIndex) resize(p *workPage, room int) {
	bytes := int64(room-cap(p.more)) * bytesOfHolding
	ix.holdings += bytes
	if bytes < 0 {
		ix.memory.add(bytes)
	}
	if room == 0 {
		p.more = nil
		return
	}
	p.more = append(make([]holding, 0, room), p.more...)
}

// detach takes a holder off a page. A page without one is free.
func (ix *workIndex) detach(number uint32, slot int32) {
	p := ix.page(number)
	i, found := p.search(slot)
	switch {
	case p.slot != slot && !found:
		return
	case p.slot == slot && len(p.more) == 0:
		p.slot = -1
		ix.release(number)
		return
	case p.slot == slot:
		p.slot, p.stamp, i = p.more[0].slot, p.more[0].stamp, 0
	}
	p.more = slices.Delete(p.more, i, i+1)
	if len(p.more) <= cap(p.more)/4 {
		ix.resize(p, 2*len(p.more))
	}
}

func (ix *workIndex) release(number uint32) {
	p := ix.page(number)
	if !follows(number, p.parent) {
		ix.table.remove(p.hash, number)
	}
	ix.resize(p, 0)
	ix.vacate(number)
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

// extend makes room for more pages. It is not given back before the index is empty, so a part of the memory is left to the holders
// that pages come to have.
func (ix *workIndex) extend() bool {
	const chunk = pagesOfChunk * bytesOfPage
	if int64(len(ix.chunks)+1)*chunk > ix.memory.limit/16*15 || !ix.memory.take(chunk) {
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
	ix.table, ix.chunks, ix.made, ix.free, ix.holdings, ix.litter = pageTable{}, nil, 0, 0, 0, nil
	for i := range ix.shelves {
		ix.shelves[i].dead = nil
	}
}
