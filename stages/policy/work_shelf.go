package policy

import (
	"slices"
	"sort"
	"strconv"

	"github.com/smg-go/smg/workers"
)

// unknownCapacity is how many tokens a worker's cache is taken to hold that does not say.
const unknownCapacity = 400_000

// shelf is what one worker holds.
type shelf struct {
	worker  *workers.Worker
	since   uint64   // holdings with stamps before this are of a worker that had the slot before
	choices []choice // oldest first
	pages   int      // that it holds
	bound   int      // how many it may
}

// choice is one prompt that was sent to a worker.
type choice struct {
	stamp uint64
	page  uint32 // the last one of the prompt; 0 if nothing of it is held any more
	slot  int32
}

// placement is what a choice has put on a shelf; the zero placement is nothing.
type placement struct {
	worker *workers.Worker
	stamp  uint64
	page   uint32 // the last page
	fresh  int    // how many pages up from there the worker did not hold
}

// shelf is the shelf of a worker, empty if it is new.
func (ix *workIndex) shelf(w *workers.Worker) *shelf {
	slot := w.Slot()
	for slot >= len(ix.shelves) {
		ix.shelves = append(ix.shelves, shelf{})
	}
	sh := &ix.shelves[slot]
	if sh.worker != w {
		ix.drop(slot)
		sh.worker, sh.bound = w, ix.bound(labelledCapacity(w))
	}
	if r := w.Report(); r != nil && r.Capacity > 0 {
		sh.bound = ix.bound(r.Capacity)
	}
	return sh
}

// bound is how many pages so many tokens are.
func (ix *workIndex) bound(tokens int64) int {
	return int(min(max(1, tokens/int64(ix.pageTokens)), 1<<30))
}

// labelledCapacity is how many tokens a worker's cache holds as its label says; unknownCapacity if it does not.
func labelledCapacity(w *workers.Worker) int64 {
	label := w.Spec().Labels["max_total_num_tokens"]
	if label == "" {
		return unknownCapacity // most have none, and an error costs an allocation
	}
	if n, err := strconv.ParseInt(label, 10, 64); err == nil && n > 0 {
		return n
	}
	return unknownCapacity
}

// record puts a prompt that was matched on the shelf of a worker, and takes from it what is too much. The index's lock is held,
// here and below.
func (ix *workIndex) record(s *workScratch, w *workers.Worker) placement {
	sh := ix.shelf(w)
	hashes := s.prompt.pages[:min(len(s.prompt.pages), sh.bound)]
	ix.stamp++
	placed := placement{worker: w, stamp: ix.stamp}
	for i, hash := range hashes {
		number := uint32(0)
		if i < len(s.known) {
			number = s.known[i]
		} else if number = ix.orphan(placed.page, hash); number == 0 {
			number = ix.room(sh, hash, placed.page)
		}
		if number == 0 {
			break // what is held of it is its beginning
		}
		if ix.touch(number, placed.page, sh, int32(w.Slot())) {
			placed.fresh++
		}
		placed.page = number
	}
	if placed.page == 0 {
		return placement{}
	}
	sh.choices = append(sh.choices, choice{ix.stamp, placed.page, int32(w.Slot())})
	for sh.pages > sh.bound && len(sh.choices) > 1 {
		ix.evict(sh)
	}
	if len(sh.choices) > 2*sh.pages+64 {
		ix.tidy(sh)
	}
	ix.collect(256)
	return placed
}

// orphan is a page that a removed worker holds without the first ones of its prompt; 0 if there is none.
func (ix *workIndex) orphan(behind uint32, hash uint64) uint32 {
	if len(ix.fallen) == 0 {
		return 0
	}
	return ix.behind(behind, hash)
}

// room is a new page. When there is no memory for it the worker's oldest choices make room.
func (ix *workIndex) room(sh *shelf, hash uint64, parent uint32) uint32 {
	for {
		if number := ix.add(hash, parent); number != 0 || len(sh.choices) == 0 {
			return number
		}
		ix.evict(sh)
	}
}

// touch notes that the newest choice is of a page, behind its parent. fresh tells that the worker did not hold it.
func (ix *workIndex) touch(number, parent uint32, sh *shelf, slot int32) (fresh bool) {
	ix.move(number, parent) // it may be an orphan
	p := ix.page(number)
	stamp := p.find(slot)
	if stamp == nil {
		ix.attach(p, slot, ix.stamp)
		sh.pages++
		return true
	}
	if fresh = *stamp < sh.since; fresh {
		sh.pages++ // it was another worker's, which had the slot before
	}
	*stamp = ix.stamp
	return fresh
}

// evict takes the oldest choice off a shelf: all that no later one is of.
func (ix *workIndex) evict(sh *shelf) {
	oldest := sh.choices[0]
	sh.choices = sh.choices[1:]
	_, n := ix.strip(oldest, 1<<30)
	sh.pages -= n
}

// strip removes a choice's holdings, from the end of the prompt to the first page that a later choice is of, or so many of them. rest
// is the page that it came to.
func (ix *workIndex) strip(c choice, most int) (rest uint32, n int) {
	for number := c.page; number != 0; n++ {
		p := ix.page(number)
		if stamp := p.find(c.slot); n == most || stamp == nil || *stamp != c.stamp {
			return number, n
		}
		up := p.parent
		ix.detach(number, c.slot)
		number = up
	}
	return 0, n
}

// takeBack undoes what a choice has newly put on a shelf, as far as no later choice is of it. It is called once for a placement.
func (ix *workIndex) takeBack(placed placement) {
	if placed.fresh == 0 {
		return
	}
	slot := placed.worker.Slot()
	sh := &ix.shelves[slot]
	i := sort.Search(len(sh.choices), func(i int) bool { return sh.choices[i].stamp >= placed.stamp })
	if sh.worker != placed.worker || i == len(sh.choices) || sh.choices[i].stamp != placed.stamp {
		return // evicted, or nothing is only its own any more
	}
	rest, n := ix.strip(sh.choices[i], placed.fresh)
	sh.pages -= n
	sh.choices[i].page = rest // what it shares with earlier ones stays, as recent as it is
}

// tidy drops choices of which nothing is held that no later one is of. It is called when most are such.
func (ix *workIndex) tidy(sh *shelf) {
	sh.choices = slices.DeleteFunc(sh.choices, func(c choice) bool {
		if c.page == 0 {
			return true
		}
		stamp := ix.page(c.page).find(c.slot)
		return stamp == nil || *stamp != c.stamp
	})
}

// forget empties the shelf of a worker. Nothing of it counts from now on; its pages are collected with later choices.
func (ix *workIndex) forget(w *workers.Worker) {
	if slot := w.Slot(); slot < len(ix.shelves) && ix.shelves[slot].worker == w {
		ix.drop(slot)
	}
	for i := range ix.shelves {
		if ix.shelves[i].worker != nil {
			return
		}
	}
	ix.fallen = nil
	ix.clear()
}

func (ix *workIndex) drop(slot int) {
	sh := &ix.shelves[slot]
	if len(sh.choices) > 0 {
		ix.fallen = append(ix.fallen, *sh)
	}
	*sh = shelf{since: ix.stamp + 1}
}

// collect removes some of what workers held that are gone.
func (ix *workIndex) collect(pages int) {
	for pages > 0 && len(ix.fallen) > 0 {
		sh := &ix.fallen[len(ix.fallen)-1]
		if len(sh.choices) == 0 {
			ix.fallen = ix.fallen[:len(ix.fallen)-1]
			continue
		}
		c := &sh.choices[0] // the oldest first, as ever: no page outlives one before it
		rest, n := ix.strip(*c, pages)
		pages -= n + 1
		if c.page = rest; n == 0 {
			sh.choices = sh.choices[1:]
		}
	}
}
