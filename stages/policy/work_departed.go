package policy

import (
	"time"

	"github.com/smg-go/smg/workers"
)

// departed remembers which workers were removed of late, so that a request whose list of candidates is of a moment ago does not take
// one for the new owner of its slot. The zero value remembers nobody. The lock of the books that it belongs to is held.
type departed struct {
	removed [2]map[*workers.Worker]struct{} // since the turn, and in the time before
	turned  time.Time
}

// add notes that a worker was removed, and lets go of those for which that is longer ago than any request lasts from its list of
// candidates to its choice.
func (d *departed) add(w *workers.Worker, now time.Time) {
	if d.removed[0] == nil || now.Sub(d.turned) >= mourning {
		d.removed = [2]map[*workers.Worker]struct{}{{}, d.removed[0]}
		d.turned = now
	}
	d.removed[0][w] = struct{}{}
}

// has tells whether a worker was removed of late.
func (d *departed) has(w *workers.Worker) bool {
	for _, removed := range d.removed {
		if _, was := removed[w]; was {
			return true
		}
	}
	return false
}

// sameRegistration tells whether two workers are revisions of one registration; a nil worker is of none.
func sameRegistration(a, b *workers.Worker) bool { return a == b || a != nil && a.ID() == b.ID() }
