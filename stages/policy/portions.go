package policy

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// portions are the ranges of one model's workers, and what they were sent lately.
type portions struct {
	mu       sync.Mutex
	members  []*workers.Worker // of the model, in order; each has the range at its place
	fleet    workers.Identity  // of the members
	ranges   sizeRanges
	adjusted time.Time // when the ranges were looked at last
	share    int64     // what each worker's part came to at the last adjustment; 0 before

	window []sent // the oldest first, from head on
	head   int
	loads  []sentLoad // by the worker's slot
	sizes  []int64    // scratch
}

// sent is one request of the window.
type sent struct {
	at   time.Time
	size int64
	slot int
	id   workers.ID
}

// sentLoad is the sum of a worker's requests in the window.
type sentLoad struct {
	id   workers.ID
	size int64
}

// load is the book of a worker.
func (b *portions) load(slot int, id workers.ID) *sentLoad {
	for len(b.loads) <= slot {
		b.loads = append(b.loads, sentLoad{})
	}
	l := &b.loads[slot]
	if l.id != id {
		*l = sentLoad{id: id} // the slot was another worker's
	}
	return l
}

func (b *portions) loadOf(w *workers.Worker) int64 { return b.load(w.Slot(), w.ID()).size }

// add notes a request.
func (b *portions) add(w *workers.Worker, size int64, now time.Time) {
	if b.head > len(b.window)/2 && len(b.window) == cap(b.window) {
		b.window, b.head = slices.Delete(b.window, 0, b.head), 0
	}
	b.window = append(b.window, sent{now, size, w.Slot(), w.ID()})
	b.load(w.Slot(), w.ID()).size += size
}

// purge drops the requests that were sent before that time.
func (b *portions) purge(since time.Time) {
	for ; b.head < len(b.window) && b.window[b.head].at.Before(since); b.head++ {
		old := &b.window[b.head]
		if l := &b.loads[old.slot]; l.id == old.id {
			l.size -= old.size
		}
	}
	if b.head == len(b.window) {
		b.window, b.head = b.window[:0], 0
	}
}

// forget drops what was sent to a worker. last tells that the model has no other.
func (b *portions) forget(w *workers.Worker) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	theirs := func(s sent) bool { return s.id == w.ID() }
	b.window = slices.DeleteFunc(b.window[b.head:], theirs)
	b.head = 0
	b.load(w.Slot(), w.ID()).size = 0
	return len(b.members) == 1 && b.members[0] == w
}

// follow starts with even ranges when other workers serve the model than before. What the ones that stay were sent still counts.
func (b *portions) follow(fleet workers.List, now time.Time) {
	if b.fleet == fleet.Identity() && len(b.members) > 0 {
		return
	}
	b.members, b.fleet = slices.Clone(fleet.Members()), fleet.Identity()
	b.ranges = evenRanges(fleet.Len())
	b.adjusted, b.share = now, 0
}

// imbalanced tells whether a candidate has much more than another.
func (b *portions) imbalanced(among workers.List, abs int64, rel float64) bool {
	least, most := int64(math.MaxInt64), int64(0)
	for _, w := range among.Members() {
		size := b.loadOf(w)
		least, most = min(least, size), max(most, size)
	}
	return most-least > abs && float64(most) > rel*float64(least)
}

// owner is the place of the candidate in whose range a size is; -1 if that worker is none.
func (b *portions) owner(size int64, among workers.List) int {
	i := b.ranges.of(size)
	if i >= len(b.members) {
		return -1
	}
	w := b.members[i]
	if i < among.Len() && among.At(i) == w {
		return i // nobody is left out: the usual case
	}
	return among.Index(w)
}

// explain rates a choice by range: nobody else was looked at.
func (b *portions) explain(x *pipeline.Exchange, i int, among workers.List) {
	if x.Explain == nil {
		return
	}
	w := among.At(i)
	r := b.ranges[workers.ListOf(b.members...).Index(w)] // a member may be an older revision of it
	x.Explain.Rate(w, 0, pipeline.Part{Name: "range_from", Value: float64(r.from)}, pipeline.Part{Name: "range_to", Value: float64(r.to)},
		pipeline.Part{Name: "size_in_window", Value: float64(b.loadOf(w))})
}

// adjust makes ranges from the sizes in the window, if what each worker's part comes to has changed to more than twice or less than
// half.
func (b *portions) adjust() (changed bool) {
	if b.head == len(b.window) {
		return false
	}
	b.sizes = b.sizes[:0]
	var total int64
	for _, s := range b.window[b.head:] {
		b.sizes = append(b.sizes, s.size)
		total += s.size
	}
	share := total / int64(len(b.members))
	if b.share != 0 && share <= 2*b.share && b.share <= 2*share {
		return false
	}
	b.share = share
	slices.Sort(b.sizes)
	b.ranges = rangesOf(b.sizes, share, len(b.members))
	return true
}
