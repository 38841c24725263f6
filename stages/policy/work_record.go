package policy

import "github.com/smg-go/smg/workers"

// recording is a piece of a prompt that is being put on a shelf, in one hold of the index's lock.
type recording struct {
	shelf  *shelf
	slot   int
	choice *choice
	passed *choice // the one whose page was taken over last
	fresh  int     // pages that the worker did not hold
	effort int     // how many holdings may still be removed to make room
}

// record puts a prompt that was matched on the shelf of a worker, and takes from it what is too much. The lock is held, and let go of
// between the pieces of a long prompt: what is held of it then is its beginning, which grows.
func (ix *workIndex) record(s *workScratch, w *workers.Worker) placement {
	if len(s.prompt.pages) == 0 {
		return placement{}
	}
	sh := ix.shelf(w)
	ix.stamp++
	placed := placement{worker: w, stamp: ix.stamp}
	sh.choices = append(sh.choices, choice{stamp: ix.stamp})
	for from := 0; ix.recordPiece(s, &placed, from); from += pagesOfHold {
		ix.pause()
		s.lose()
	}
	return placed
}

// recordPiece puts one piece of a prompt on the shelf; more tells whether there is another one to be put there.
func (ix *workIndex) recordPiece(s *workScratch, placed *placement, from int) (more bool) {
	slot := placed.worker.Slot()
	sh := &ix.shelves[slot]
	r := recording{shelf: sh, slot: slot, choice: sh.choice(placed.stamp), effort: 2 * pagesOfHold}
	if r.choice == nil {
		return false // evicted since, or overtaken, or the worker was removed
	}
	all := min(len(s.prompt.pages), sh.bound)
	to := min(from+pagesOfHold, all)
	for i := from; i < to; i++ {
		if !ix.place(s, &r, i) {
			all = 0 // what is held of it is its beginning
			break
		}
	}
	placed.fresh += r.fresh
	for sh.pages > sh.bound && len(sh.choices) > 1 {
		ix.evict(slot)
	}
	if len(sh.choices) > 2*sh.pages+64 {
		sh.tidy()
	}
	ix.collect(256 + 2*r.fresh)
	return to < all
}

// place puts one page of a prompt on the shelf, behind those before it; false if there is no memory for it.
func (ix *workIndex) place(s *workScratch, r *recording, i int) bool {
	for {
		number := ix.find(s, r.choice.page, i)
		if number == 0 {
			number = ix.add(s.prompt.pages[i], r.choice.page)
		}
		if number != 0 && ix.touch(r, number) {
			r.choice.page = number
			return true
		}
		if !ix.makeRoom(r) {
			return false
		}
		s.lose()
	}
}

// lose tells that the pages that were matched may be gone.
func (s *workScratch) lose() { s.known, s.apart = s.known[:0], true }

// find is the number of a prompt's page, 0 if there is none.
func (ix *workIndex) find(s *workScratch, before uint32, i int) uint32 {
	switch {
	case s.apart:
		return ix.behind(before, s.prompt.pages[i])
	case i < len(s.known):
		return s.known[i]
	}
	return 0
}

// touch notes that the choice is of a page; false if there is no memory for it.
func (ix *workIndex) touch(r *recording, number uint32) bool {
	p, sh := ix.page(number), r.shelf
	stamp := p.find(int32(r.slot))
	switch {
	case stamp == nil:
		if !ix.attach(p, int32(r.slot), r.choice.stamp) {
			return false
		}
		r.own()
		return true
	case *stamp < sh.since: // it counts for nothing, and is not collected yet
		r.own()
	case *stamp > r.choice.stamp:
		return true // a choice was faster that is later
	default:
		if r.passed == nil || r.passed.stamp != *stamp {
			r.passed = sh.choice(*stamp)
		}
		r.passed.own--
		r.choice.own++
	}
	*stamp = r.choice.stamp
	return true
}

// own counts a page that the worker did not hold.
func (r *recording) own() {
	r.shelf.pages++
	r.choice.own++
	r.fresh++
}

// makeRoom collects some of what counts for nothing, and evicts the worker's oldest choice if there is nothing such. It is false if
// this would take too long, or there is nothing left that could go.
func (ix *workIndex) makeRoom(r *recording) bool {
	if r.effort <= 0 {
		return false
	}
	for len(ix.litter) == 0 {
		if r.shelf.choices[0].stamp == r.choice.stamp {
			return false
		}
		ix.evict(r.slot)
	}
	r.effort -= 1 + ix.collect(32)
	return true
}
