package policy

import (
	"runtime"
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
// last, and no page outlives one before it. What goes counts for nothing at once, and is collected bit by bit with later choices.
//
// A long prompt is looked up and put in piece by piece, and others get their turn in between.
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
	litter  []int32 // slots with holdings to be collected

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
	// pagesOfHold is how many pages of a prompt are dealt with in one hold of the lock: some ten microseconds of work.
	pagesOfHold = 1 << 10
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

// pause lets those have the lock that wait for it. Whoever pauses finds another index afterwards.
func (ix *workIndex) pause() {
	ix.mu.Unlock()
	runtime.Gosched() // else this goroutine would have the lock again before they are awake
	ix.mu.Lock()
}

// match finds the pages of a prompt, and how many of them each worker holds: s.depth by slot. The lock is held, and let go of between
// the pieces of a long prompt.
func (ix *workIndex) match(s *workScratch) {
	for to := 0; len(s.known) == to && to < len(s.prompt.pages); {
		if to > 0 {
			ix.pause()
			s.apart = true
		}
		if len(s.depth) < len(ix.shelves) {
			s.depth = append(s.depth, make([]int32, len(ix.shelves)-len(s.depth))...)
		}
		to = min(to+pagesOfHold, len(s.prompt.pages))
		ix.matchPiece(s, s.prompt.pages[len(s.known):to])
	}
}

// matchPiece goes on with these pages behind those that are known.
func (ix *workIndex) matchPiece(s *workScratch, hashes []uint64) {
	last, holders := uint32(0), 0
	if n := len(s.known); n > 0 {
		last = s.known[n-1]
	}
	var before *workPage
	for _, hash := range hashes {
		if last = ix.behind(last, hash); last == 0 {
			break
		}
		p := ix.page(last)
		n := p.holders()
		// Who holds a page holds the one before it, so an equal number are the same ones, if what they hold counts.
		if before != nil && (n != holders || len(ix.litter) > 0) {
			ix.mark(s, before)
		}
		s.known = append(s.known, last)
		before, holders = p, n
	}
	if before != nil {
		ix.mark(s, before)
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

// mark notes for the holders of the last known page that they hold all that are known.
func (ix *workIndex) mark(s *workScratch, p *workPage) {
	ix.reach(s, p.slot, p.stamp)
	for _, h := range p.more {
		ix.reach(s, h.slot, h.stamp)
	}
}

func (ix *workIndex) reach(s *workScratch, slot int32, stamp uint64) {
	if stamp < ix.shelves[slot].since {
		return // it counts for nothing any more
	}
	if s.depth[slot] == 0 {
		s.marked = append(s.marked, slot)
	}
	s.depth[slot] = int32(len(s.known))
}

// holds is how many tokens at the prompt's beginning the worker holds, after a match.
func (ix *workIndex) holds(s *workScratch, w *workers.Worker) int64 {
	slot := w.Slot()
	if slot >= len(s.depth) || s.depth[slot] == 0 || !sameRegistration(ix.shelves[slot].worker, w) {
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
