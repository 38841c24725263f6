package policy

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// DECISIONS, 57: the memory is bounded, whatever comes; the oldest makes room.
func TestTheWorkIndexStaysWithinItsMemory(t *testing.T) {
	_, all := fleet(t, 2)
	const limit = 3 * pagesOfChunk * bytesOfPage
	ix := newShelved(limit)
	for k := range 400 {
		ix.put(all[k%2], ids(k, 1600))
		require.LessOrEqual(t, ix.memory.used.Load(), int64(limit))
	}
	require.Equal(t, 100, ix.has(all[1], ids(399, 1600)))
	require.Zero(t, ix.has(all[1], ids(1, 1600)))
	audit(t, ix.workIndex)
	ix.put(all[0], ids(1000, 100_000))
	require.Less(t, ix.has(all[0], ids(1000, 100_000)), 3*pagesOfChunk+1)
	require.NotZero(t, ix.has(all[0], ids(1000, 100_000)), "of what does not fit, the beginning")
	audit(t, ix.workIndex)

	for _, w := range all {
		ix.remove(w)
	}
	require.Zero(t, ix.memory.used.Load(), "with the last worker everything is given back")
	require.Equal(t, 10, func() int { ix.put(all[0], ids(1, 160)); return ix.has(all[0], ids(1, 160)) }(), "and begins anew")
}

// DECISIONS, 57: so is the memory of pages that many workers hold; what does not fit is not recorded, or pushes older choices out.
func TestPagesOfManyWorkersStayWithinTheMemory(t *testing.T) {
	const limit = 4 << 20
	_, all := fleet(t, 200)
	ix := newShelved(limit)
	prompt := ids(1, 128_000)
	for _, w := range all {
		ix.put(w, prompt)
		require.LessOrEqual(t, ix.memory.used.Load(), int64(limit))
	}
	require.Equal(t, 8000, ix.has(all[0], prompt))
	audit(t, ix.workIndex)

	r := rand.New(rand.NewPCG(1, 3))
	small := newShelved(5 * pagesOfChunk * bytesOfPage)
	for k := range 4000 {
		w := all[r.IntN(len(all))]
		placed := small.put(w, append(ids(r.IntN(3), 16*(1+r.IntN(100))), ids(10+r.IntN(1000), 16*r.IntN(300))...))
		require.LessOrEqual(t, small.memory.used.Load(), small.memory.limit)
		if r.IntN(4) == 0 {
			small.undo(placed)
		}
		if k%100 == 0 {
			audit(t, small.workIndex)
		}
		if k%1000 == 999 {
			small.remove(w)
		}
	}
	recent := ids(5000, 160)
	small.put(all[7], ids(5001, 160))
	small.put(all[7], recent)
	require.NotZero(t, small.has(all[7], recent), "a full index learns")
	audit(t, small.workIndex)
}

// heldBy is how many pages the index has for a slot, void ones included.
func (ix *workIndex) heldBy(slot int32) (n int) {
	for number := uint32(1); number <= ix.made; number++ {
		if p := ix.page(number); p.holders() > 0 && p.find(slot) != nil {
			n++
		}
	}
	return n
}

// Issue, "never holds a lock that makes one request wait for the eviction of another's entries": a request that pushes a huge prompt out
// removes about as many pages as it brings; the rest counts for nothing at once, and goes with later requests.
func TestASmallRequestRemovesFewPages(t *testing.T) {
	_, all := fleet(t, 1)
	ix := newShelved(0)
	huge := ids(1, unknownCapacity)
	ix.put(all[0], huge)
	require.Equal(t, unknownCapacity/16, ix.heldBy(0))
	ix.put(all[0], ids(2, 160))
	require.Zero(t, ix.has(all[0], huge))
	require.Equal(t, 10, ix.shelves[0].pages)
	require.Greater(t, ix.heldBy(0), unknownCapacity/16-500)
	audit(t, ix.workIndex)
	for range 100 {
		ix.put(all[0], ids(2, 160))
	}
	require.Equal(t, 10, ix.heldBy(0))
	require.Empty(t, ix.litter)
	audit(t, ix.workIndex)
}

// A huge prompt is put in and looked up piece by piece, and others get their turn in between.
func TestAHugePromptLetsOthersPass(t *testing.T) {
	_, all := fleet(t, 2)
	between := func(do func(ix *shelved), seen func(ix *workIndex) bool) bool {
		for range 200 { // one look from outside suffices, but the scheduler is free
			ix, over, found := newShelved(0), make(chan struct{}), make(chan bool)
			ix.put(all[0], ids(1, unknownCapacity))
			ix.put(all[1], ids(2, 160))
			go func() {
				any := false
				for {
					ix.mu.Lock()
					any = any || seen(ix.workIndex)
					ix.mu.Unlock()
					select {
					case <-over:
						found <- any
						return
					default:
						runtime.Gosched()
					}
				}
			}()
			do(ix)
			close(over)
			if <-found {
				return true
			}
		}
		return false
	}
	require.True(t, between(func(ix *shelved) { ix.put(all[1], ids(1, unknownCapacity)) }, func(ix *workIndex) bool {
		n := ix.shelves[1].pages
		return n > 10 && n < unknownCapacity/16
	}), "while it is put in")
	require.True(t, between(func(ix *shelved) { ix.undo(placement{all[0], 1, unknownCapacity / 16}) }, func(ix *workIndex) bool {
		n := ix.shelves[0].pages
		return n > 0 && n < unknownCapacity/16
	}), "while it is taken back")
}

// Whatever others do between the pieces of a huge prompt, the index is whole.
func TestAPromptIsPutInPieceByPiece(t *testing.T) {
	_, all := fleet(t, 2)
	prompt := ids(1, 3*pagesOfHold*16)
	for name, tt := range map[string]struct {
		meanwhile func(ix *shelved)
		held      int
	}{
		"nothing":                   {func(*shelved) {}, 3 * pagesOfHold},
		"another worker is sent it": {func(ix *shelved) { ix.put(all[1], prompt) }, 3 * pagesOfHold},
		"it is sent it once more":   {func(ix *shelved) { ix.put(all[0], prompt) }, 3 * pagesOfHold},
		"it is sent some of it":     {func(ix *shelved) { ix.put(all[0], prompt[:1500*16]) }, 3 * pagesOfHold},
		"it is sent too much":       {func(ix *shelved) { ix.put(all[0], ids(2, unknownCapacity)) }, 0},
		"it is removed":             {func(ix *shelved) { ix.remove(all[0]) }, 0},
		"all are removed":           {func(ix *shelved) { ix.remove(all[0]); ix.remove(all[1]) }, 0},
		"its bound shrinks":         {func(ix *shelved) { says(all[0], workers.RankLoad{Capacity: 1600}); ix.put(all[0], ids(3, 16)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer all[0].SetReport(nil)
			ix := newShelved(0)
			ix.put(all[1], ids(9, 160))
			var s workScratch
			s.prompt.read(streamed(prompt...), 16)
			sh := ix.shelf(all[0])
			ix.stamp++
			sh.choices = append(sh.choices, choice{stamp: ix.stamp})
			placed := placement{worker: all[0], stamp: ix.stamp}
			require.True(t, ix.recordPiece(&s, &placed, 0))
			require.Equal(t, pagesOfHold, ix.has(all[0], prompt), "the others know of the beginning")
			audit(t, ix.workIndex)
			tt.meanwhile(ix)
			audit(t, ix.workIndex)
			for from := pagesOfHold; ; from += pagesOfHold {
				s.lose()
				if !ix.recordPiece(&s, &placed, from) {
					break
				}
				audit(t, ix.workIndex)
			}
			require.Equal(t, tt.held, ix.has(all[0], prompt))
			audit(t, ix.workIndex)
			ix.undo(placed)
			audit(t, ix.workIndex)
		})
	}
}

// The memory that pages are counted with is what they take.
func BenchmarkWorkIndexMemory(b *testing.B) {
	registry, _ := fleet(b, 8)
	p := LeastWork(BuiltIn(Shared{}), slog.New(slog.DiscardHandler)).(*leastWork)
	k, before := 0, heap()
	for b.Loop() {
		k++
		p.Select(streamed(ids(k, 1600)...), pool(registry))
	}
	live := float64(p.index.made - p.index.freePages(b))
	b.ReportMetric(float64(p.index.memory.used.Load())/live, "bytes/page")
	b.ReportMetric(float64(heap()-before)/live, "heap-bytes/page")
	runtime.KeepAlive(p)
}
