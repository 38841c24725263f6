package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// policies.md, section 7.3: a pass that hurries over thousands of workers finds whom a plain one finds, and draws the same numbers. The
// fleets mix reports, none, ties and workers over the cap.
func TestComparingFindsWhoAPlainPassFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	registry, all := fleet(t, 60)
	for round := range 300 {
		hurried := newExpectedWait(0.15, 2000, 1024, int64(r.IntN(2)*3), nil)
		scatter(r, all)
		var members []int
		if round%3 == 0 {
			members = r.Perm(len(all))[:1+r.IntN(len(all))]
		}
		hurried.chance = NewChance(uint64(round))
		b := hurried.compare(pool(registry), members)
		reported, dark := plainly(hurried, NewChance(uint64(round)), all, members)
		require.Equal(t, reported.held, b.reported.held, "round %d", round)
		require.Equal(t, dark.held, b.dark.held, "round %d", round)
		require.Equal(t, reported.place, b.reported.place, "round %d", round)
		require.Equal(t, dark.place, b.dark.place, "round %d", round)
	}
}

// scatter gives workers few different loads, so that many are equal; some have no report.
func scatter(r *rand.Rand, all []*workers.Worker) {
	now := time.Now()
	without := r.IntN(4) // of 3; none, some or all
	for _, w := range all {
		w.SetReport(nil)
		if r.IntN(3) >= without {
			w.SetReport(workers.NewReport(now, now, "", []workers.RankLoad{{Waiting: int64(r.IntN(5))}}))
		}
		for w.InFlight() > 0 {
			w.End()
		}
		for range r.IntN(3) {
			w.Begin()
		}
	}
}

// plainly compares one after the other.
func plainly(s *expectedWait, chance *Chance, all []*workers.Worker, members []int) (reported, dark lot) {
	reported, dark = lot{chance: chance}, lot{chance: chance}
	least, fewest := math.Inf(1), int64(math.MaxInt64)
	for k := range compared(all, members) {
		place := placeAt(members, k)
		w := all[place]
		r := w.Report()
		switch {
		case r == nil && w.InFlight() < fewest:
			fewest = w.InFlight()
			dark.restart(place)
		case r == nil && w.InFlight() == fewest:
			dark.join(place)
		case r == nil || s.full(s.account(w, r)):
		case s.account(w, r).score < least:
			least = s.account(w, r).score
			reported.restart(place)
		case s.account(w, r).score == least:
			reported.join(place)
		}
	}
	return reported, dark
}
