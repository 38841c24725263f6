package policy

import (
	"sync"

	"github.com/smg-go/smg/workers"
)

// workIndex is what least_work believes that the workers' caches hold: for each worker the pages of the prompts that were sent to
// it last, as many tokens of them as its cache can hold. A page is known by the hash of itself and all before it, so prompts that
// begin alike share their pages, and a worker that holds a page holds those before it.
//
// The pages of a prompt are put at one place, one behind the other, as far as there is room: so a prompt is read through, and only the
// pages that do not follow the one before them must be looked up.
//
// Each worker has its choices in a queue, and each of its pages knows the last choice that was of it. When the worker holds too much,
// its oldest choice goes: from the end of its prompt up to the first page that a later choice was of too. So what is used last goes
// last, and no page outlives one before it.
type workIndex struct {
	memory     *indexMemory
	pageTokens int

	mu      sync.Mutex
	table   pageTable    // of the pages that do not follow the one before them
	chunks  [][]workPage // all pages, by their numbers, from 1
	made    uint32       // numbers in use or free
	free    uint32       // the first of those that are free; see [workIndex.vacate]
	shelves []shelf
	stamp   uint64  // of the last choice
	fallen  []shelf // of workers that were removed; their pages are collected bit by bit

	holdings int64 // bytes of the holdings besides the first of each page
}

// workPage is one page. Most are held by one worker, so that the first holding has a place of its own.
type workPage struct {
	hash   uint64
	parent uint32 // the page before it; 0 for the first one of a prompt
	slot   int32  // of the first holding; -1 if there is none
	stamp  uint64 // of the first holding: the last choice of the worker that was of this page
	more   []holding
}

// holding is one worker that holds a page, besides the first.
type holding struct {
	stamp uint64
	slot  int32
}

const (
	pagesOfChunk = 1 << 10
	// bytesOfPage is what one page takes: itself, and room in the table, which most do not need.
	bytesOfPage    = 48 + bytesOfEntry
	bytesOfHolding = 16
)

func newWorkIndex(memory *indexMemory, pageTokens int) *workIndex {
	return &workIndex{memory: memory, pageTokens: pageTokens}
}

func (ix *workIndex) page(number uint32) *workPage {
	number--
	return &ix.chunks[number/pagesOfChunk][number%pagesOfChunk]
}

// match finds the pages of a prompt, and how many of them each worker holds: s.depth by slot. The lock is held.
func (ix *workIndex) match(s *workScratch) {
	last := uint32(0)
	for _, hash := range s.prompt.pages {
		if last = ix.behind(last, hash); last == 0 {
			break
		}
		s.known = append(s.known, last)
	}
	if len(s.depth) < len(ix.shelves) {
		s.depth = append(s.depth, make([]int32, len(ix.shelves)-len(s.depth))...)
	}
	deeper := 0 // holders of the page behind: they hold this one too, so an equal number are the same ones
	for i := len(s.known) - 1; i >= 0; i-- {
		p := ix.page(s.known[i])
		if n := p.holders(); n != deeper || len(ix.fallen) > 0 {
			ix.mark(s, p, int32(i+1))
			deeper = n
		}
	}
}

// behind is the number of the page with a hash behind another page, 0 if there is none.
func (ix *workIndex) behind(number uint32, hash uint64) uint32 {
	if number > 0 && number < ix.made {
		if next := ix.page(number + 1); next.hash == hash && next.parent == number {
			return number + 1
		}
	}
	return ix.lookUp(hash)
}

// mark notes the depth for the holders of a page that do not hold a deeper one.
func (ix *workIndex) mark(s *workScratch, p *workPage, depth int32) {
	ix.reach(s, p.slot, p.stamp, depth)
	for _, h := range p.more {
		ix.reach(s, h.slot, h.stamp, depth)
	}
}

func (ix *workIndex) reach(s *workScratch, slot int32, stamp uint64, depth int32) {
	if s.depth[slot] == 0 && stamp >= ix.shelves[slot].since { // else it is of a worker that was removed
		s.depth[slot] = depth
		s.marked = append(s.marked, slot)
	}
}

// holds is how many tokens at the prompt's beginning the worker holds, after a match.
func (ix *workIndex) holds(s *workScratch, w *workers.Worker) int64 {
	slot := w.Slot()
	if slot >= len(s.depth) || s.depth[slot] == 0 || ix.shelves[slot].worker != w {
		return 0
	}
	return int64(s.depth[slot]) * int64(ix.pageTokens)
}

func (p *workPage) holders() int {
	if p.slot < 0 {
		return 0
	}
	return 1 + len(p.more)
}

// find is where the stamp of a worker's holding is; nil if it does not hold the page.
func (p *workPage) find(slot int32) *uint64 {
	if p.slot == slot {
		return &p.stamp
	}
	if i, found := p.search(slot); found {
		return &p.more[i].stamp
	}
	return nil
}

// search is where a slot is among the other holdings, or belongs.
func (p *workPage) search(slot int32) (i int, found bool) {
	low, high := 0, len(p.more)
	for low < high {
		if middle := (low + high) / 2; p.more[middle].slot < slot {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(p.more) && p.more[low].slot == slot
}
