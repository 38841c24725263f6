package policy

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/smg-go/smg/workers"
)

// unknownCapacity is how many tokens a worker's cache is taken to hold that does not say.
const unknownCapacity = 400_000

// shelf is what one worker holds.
type shelf struct {
	worker   *workers.Worker // its latest revision
	since    uint64          // holdings with stamps before this count for nothing, and are to be collected
	choices  []choice        // oldest first
	dead     []choice        // oldest first: what is to be collected, also of workers that had the slot before
	pages    int             // that it holds
	bound    int             // how many it may
	reported bool            // the bound is what a report has said
}

// choice is one prompt that was sent to a worker.
type choice struct {
	stamp uint64
	page  uint32 // the last one of the prompt; 0 if nothing of it is held any more
	own   int32  // how many pages, up from there, no later choice is of
}

// placement is what a choice has put on a shelf; the zero placement is nothing.
type placement struct {
	worker *workers.Worker
	stamp  uint64
	fresh  int // how many pages up from the last one the worker did not hold
}

// shelf is the shelf of a worker, empty if it is new.
func (ix *workIndex) shelf(w *workers.Worker) *shelf {
	slot := w.Slot()
	for slot >= len(ix.shelves) {
		ix.shelves = append(ix.shelves, shelf{})
	}
	sh := &ix.shelves[slot]
	if sh.worker != w {
		same := sameRegistration(sh.worker, w)
		if same && sh.worker.Revision() > w.Revision() {
			return sh
		}
		if !same {
			ix.drop(slot)
		}
		if sh.worker = w; !sh.reported {
			sh.bound = ix.bound(labelledCapacity(w))
		}
	}
	if r := w.Report(); r != nil && r.Capacity > 0 {
		sh.bound, sh.reported = ix.bound(r.Capacity), true
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
	ix.clear()
}

// inherit lets a worker's next revision have its shelf.
func (ix *workIndex) inherit(was, now *workers.Worker) {
	if slot := was.Slot(); slot < len(ix.shelves) && ix.shelves[slot].worker == was {
		ix.shelf(now)
	}
}

func (ix *workIndex) drop(slot int) {
	sh := &ix.shelves[slot]
	if sh.tidy(); len(sh.choices) > 0 {
		ix.litters(slot)
	}
	*sh = shelf{since: ix.stamp + 1, dead: append(sh.dead, sh.choices...)}
}

// evict takes the oldest choice off a shelf: all that no later one is of.
func (ix *workIndex) evict(slot int) {
	sh := &ix.shelves[slot]
	oldest := sh.choices[0]
	sh.choices = sh.choices[1:]
	if sh.since = oldest.stamp + 1; oldest.own == 0 {
		return
	}
	sh.pages -= int(oldest.own)
	ix.litters(slot)
	sh.dead = append(sh.dead, oldest)
}

// litters notes that something of a slot is to be collected; it is called before that is put down.
func (ix *workIndex) litters(slot int) {
	if len(ix.shelves[slot].dead) == 0 {
		ix.litter = append(ix.litter, int32(slot))
	}
}

// collect removes holdings that count for nothing, in so many steps at most, and tells how many it took.
func (ix *workIndex) collect(most int) (steps int) {
	for steps < most && len(ix.litter) > 0 {
		steps += ix.collectOf(ix.litter[len(ix.litter)-1], most-steps)
	}
	return steps
}

// collectOf is collect of a slot that litters: the oldest first, for no page may outlive one before it.
func (ix *workIndex) collectOf(slot int32, most int) (steps int) {
	sh := &ix.shelves[slot]
	for len(sh.dead) > 0 {
		if steps += ix.strip(&sh.dead[0], slot, most-steps); steps >= most {
			return steps
		}
		sh.dead = sh.dead[1:]
		steps++
	}
	sh.dead = nil
	ix.litter = slices.DeleteFunc(ix.litter, func(other int32) bool { return other == slot })
	return steps
}

// strip removes the pages that are only a choice's, from the end of the prompt, or so many of them, and tells how many.
func (ix *workIndex) strip(c *choice, slot int32, most int) (n int) {
	for c.page != 0 && n < most {
		p := ix.page(c.page)
		stamp := p.find(slot)
		if stamp == nil || *stamp != c.stamp {
			break
		}
		up := p.parent
		ix.detach(c.page, slot)
		c.page = up
		n++
	}
	return n
}

// choice is the choice with a stamp; nil if it is not there any more. It is to be used before another choice is appended.
func (sh *shelf) choice(stamp uint64) *choice {
	i, found := slices.BinarySearchFunc(sh.choices, stamp, func(c choice, stamp uint64) int { return cmp.Compare(c.stamp, stamp) })
	if !found {
		return nil
	}
	return &sh.choices[i]
}

// takeBack undoes what a choice has newly put on a shelf, as far as no later choice is of it. It is called once for a placement.
// The lock is held, and let go of now and then.
func (ix *workIndex) takeBack(placed placement) {
	if placed.fresh == 0 {
		return
	}
	slot := placed.worker.Slot()
	for left := placed.fresh; ; ix.pause() {
		sh := &ix.shelves[slot]
		c := sh.choice(placed.stamp)
		if c == nil {
			return // evicted, or the worker was removed
		}
		if len(sh.dead) > 0 {
			ix.collectOf(int32(slot), pagesOfHold)
		}
		if len(sh.dead) > 0 {
			continue // they may stand behind it, so they go first
		}
		n := ix.strip(c, int32(slot), min(left, pagesOfHold)) // what it shares with earlier ones stays, as recent as it is
		sh.pages -= n
		c.own -= int32(n)
		if left -= n; left == 0 || n < pagesOfHold {
			return
		}
	}
}

// tidy drops choices of which nothing is held that no later one is of. It is called when most are such.
func (sh *shelf) tidy() {
	sh.choices = slices.DeleteFunc(sh.choices, func(c choice) bool { return c.own == 0 })
}
