package policy

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// audit counts an index anew: what shelves say that they hold, what is held, and what memory that is; that no page is without the
// one before it; and that each is some choice's, which will evict it.
func audit(t testing.TB, ix *workIndex) {
	t.Helper()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	owned, held, extra := ownedPages(t, ix), make([]int, len(ix.shelves)), int64(0)
	tabled, free, seen := 0, ix.freePages(t), map[uint64]bool{}
	for number := uint32(1); number <= ix.made; number++ {
		p := ix.page(number)
		if p.holders() == 0 {
			free--
			continue
		}
		require.False(t, seen[p.hash], "each page is there once")
		seen[p.hash] = true
		if !follows(number, p.parent) {
			tabled++
			require.Equal(t, number, ix.lookUp(p.hash))
		}
		extra += int64(cap(p.more))
		for _, h := range append([]holding{{p.stamp, p.slot}}, p.more...) {
			if h.stamp >= ix.shelves[h.slot].since {
				held[h.slot]++
			}
			if !owned[ownedPage{number, h}] {
				t.Fatalf("no choice would ever evict page %d of slot %d", number, h.slot)
			}
			if p.parent != 0 {
				if before := ix.page(p.parent).find(h.slot); before == nil || *before < h.stamp {
					t.Fatalf("page %d of slot %d has outlived the one before it", number, h.slot)
				}
			}
		}
	}
	require.Zero(t, free, "what is not held is free")
	require.Equal(t, tabled, ix.table.entries())
	for slot := range ix.shelves {
		require.Equal(t, held[slot], ix.shelves[slot].pages, "slot %d", slot)
		require.LessOrEqual(t, held[slot], ix.shelves[slot].bound, "slot %d", slot)
		require.Equal(t, len(ix.shelves[slot].dead) > 0, slices.Contains(ix.litter, int32(slot)), "what is dead is collected")
	}
	require.Equal(t, int64(len(ix.chunks))*pagesOfChunk*bytesOfPage+extra*bytesOfHolding, ix.memory.used.Load())
}

type ownedPage struct {
	number uint32
	holding
}

// ownedPages are the pages that evicting all choices would remove, and collecting what is dead.
func ownedPages(t testing.TB, ix *workIndex) map[ownedPage]bool {
	owned := map[ownedPage]bool{}
	own := func(slot int32, c choice) (n int32) {
		for number := c.page; number != 0; number = ix.page(number).parent {
			if stamp := ix.page(number).find(slot); stamp == nil || *stamp != c.stamp {
				break
			}
			owned[ownedPage{number, holding{c.stamp, slot}}] = true
			n++
		}
		return n
	}
	for slot := range ix.shelves {
		for _, c := range ix.shelves[slot].choices {
			require.Equal(t, c.own, own(int32(slot), c), "slot %d", slot)
		}
		for _, c := range ix.shelves[slot].dead {
			own(int32(slot), c)
		}
	}
	return owned
}

// shelved is an index alone.
type shelved struct {
	*workIndex
	s workScratch
}

func newShelved(limit int64) *shelved {
	return &shelved{workIndex: newWorkIndex(newIndexMemory(limit), 16)}
}

// put records a prompt for a worker.
func (ix *shelved) put(w *workers.Worker, tokens []uint32) placement {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	defer ix.s.reset()
	ix.s.prompt.read(streamed(tokens...), 16)
	ix.match(&ix.s)
	return ix.record(&ix.s, w)
}

// has is how many pages of a prompt a worker holds.
func (ix *shelved) has(w *workers.Worker, tokens []uint32) int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	defer ix.s.reset()
	ix.s.prompt.read(streamed(tokens...), 16)
	ix.match(&ix.s)
	return int(ix.holds(&ix.s, w)) / 16
}

func (ix *shelved) undo(placed placement) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.takeBack(placed)
}

func (ix *shelved) remove(w *workers.Worker) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.forget(w)
}

// least-work.md, sections 3 and 6
func TestAShelfHoldsWhatTheCacheCanHold(t *testing.T) {
	capacity := func(w *workers.Worker, tokens int64) { says(w, workers.RankLoad{Capacity: tokens}) }
	t.Run("of a worker that does not report, its label says", func(t *testing.T) {
		for label, fits := range map[string]int{"1600": 100, "": unknownCapacity / 16, "none": unknownCapacity / 16, "-5": unknownCapacity / 16} {
			w := worker(t, "http://127.0.0.1:1", map[string]string{"max_total_num_tokens": label})
			require.NoError(t, workers.NewRegistry().Add(w))
			ix := newShelved(0)
			ix.put(w, ids(1, 500_000))
			require.Equal(t, fits, ix.has(w, ids(1, 500_000)), "label %q", label)
			capacity(w, 160)
			ix.put(w, ids(2, 1000))
			require.Equal(t, 10, ix.has(w, ids(2, 1000)), "a report knows better")
		}
	})
	t.Run("1,000 tokens are not three prompts of 400", func(t *testing.T) {
		_, all := fleet(t, 1)
		capacity(all[0], 1000)
		ix := newShelved(0)
		for k := range 3 {
			ix.put(all[0], ids(k, 400))
		}
		require.Equal(t, []int{0, 25, 25}, []int{ix.has(all[0], ids(0, 400)), ix.has(all[0], ids(1, 400)), ix.has(all[0], ids(2, 400))})
		audit(t, ix.workIndex)
	})
	t.Run("what was chosen last stays, and a lookup is no choice", func(t *testing.T) {
		_, all := fleet(t, 1)
		capacity(all[0], 1000)
		ix := newShelved(0)
		ix.put(all[0], ids(0, 400))
		ix.put(all[0], ids(1, 400))
		ix.put(all[0], ids(0, 400))
		ix.has(all[0], ids(1, 400))
		ix.put(all[0], ids(2, 400))
		require.Equal(t, []int{25, 0, 25}, []int{ix.has(all[0], ids(0, 400)), ix.has(all[0], ids(1, 400)), ix.has(all[0], ids(2, 400))})
	})
	t.Run("a prefix that others share outlives an extension", func(t *testing.T) {
		_, all := fleet(t, 1)
		capacity(all[0], 640)
		ix := newShelved(0)
		shared := ids(0, 320)
		long := func(k int) []uint32 { return append(slices.Clone(shared), ids(k, 160)...) }
		for k := 1; k <= 5; k++ {
			ix.put(all[0], long(k))
			audit(t, ix.workIndex)
		}
		require.Equal(t, []int{20, 20, 20, 30, 30}, []int{
			ix.has(all[0], long(1)), ix.has(all[0], long(2)), ix.has(all[0], long(3)), ix.has(all[0], long(4)), ix.has(all[0], long(5)),
		})
	})
	t.Run("of a prompt that is longer than the cache the beginning is held", func(t *testing.T) {
		_, all := fleet(t, 1)
		capacity(all[0], 1000)
		ix := newShelved(0)
		ix.put(all[0], ids(0, 5000))
		require.Equal(t, 62, ix.has(all[0], ids(0, 5000)))
		audit(t, ix.workIndex)
	})
	t.Run("400,000 tokens where it is not known", func(t *testing.T) {
		_, all := fleet(t, 1)
		ix := newShelved(0)
		for k := range 5 {
			ix.put(all[0], ids(k, 100_000))
		}
		require.Zero(t, ix.has(all[0], ids(0, 100_000)))
		require.Equal(t, 6250, ix.has(all[0], ids(1, 100_000)))
		capacity(all[0], 200_000)
		ix.put(all[0], ids(9, 16))
		require.Zero(t, ix.has(all[0], ids(3, 100_000)), "it is known now")
		require.Equal(t, 6250, ix.has(all[0], ids(4, 100_000)))
		audit(t, ix.workIndex)
	})
	t.Run("each worker has its own", func(t *testing.T) {
		_, all := fleet(t, 2)
		capacity(all[0], 400)
		ix := newShelved(0)
		for k := range 3 {
			ix.put(all[0], ids(k, 400))
			ix.put(all[1], ids(k, 400))
		}
		require.Zero(t, ix.has(all[0], ids(0, 400)))
		require.Equal(t, 25, ix.has(all[1], ids(0, 400)))
		audit(t, ix.workIndex)
	})
}

// A prompt that is chosen again and again is one prompt: the queue of choices does not grow with the requests.
func TestTheQueueOfChoicesIsBounded(t *testing.T) {
	_, all := fleet(t, 1)
	ix := newShelved(0)
	for k := range 5000 {
		ix.put(all[0], ids(k%3, 160))
	}
	require.LessOrEqual(t, len(ix.shelves[0].choices), 2*30+64)
	audit(t, ix.workIndex)
}

// Issue "Bad input": a prompt of any size or content is a bounded number of pages.
func TestAHugePromptIsBounded(t *testing.T) {
	_, all := fleet(t, 1)
	w := newWorks(t)
	for name, text := range map[string]string{
		"one character repeated": strings.Repeat("a", 10<<20),
		"bytes that are no text": strings.Repeat("\x80\xff\xc3", 1<<20),
	} {
		x := &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: text}}
		w.serve(t, x, all...)
		require.LessOrEqual(t, w.index.shelves[0].pages, maxWorkPages, name)
		audit(t, w.index)
	}
}

// simpleShelves is what an index should do, without any thought of speed: each worker's pages, each with its last choice.
type simpleShelves struct {
	held    map[*workers.Worker]map[string]int // by the prompt up to the page's end
	choices map[*workers.Worker][]int
	stamp   int
	bound   int
}

func (n *simpleShelves) put(w *workers.Worker, tokens []uint32) {
	if n.held[w] == nil {
		n.held[w] = map[string]int{}
	}
	n.stamp++
	for end := 16; end <= min(len(tokens), n.bound*16); end += 16 {
		n.held[w][tokenKey(tokens[:end])] = n.stamp
	}
	n.choices[w] = append(n.choices[w], n.stamp)
	for len(n.held[w]) > n.bound {
		oldest := n.choices[w][0]
		n.choices[w] = n.choices[w][1:]
		for page, stamp := range n.held[w] {
			if stamp == oldest {
				delete(n.held[w], page)
			}
		}
	}
}

func (n *simpleShelves) has(w *workers.Worker, tokens []uint32) (pages int) {
	for end := 16; end <= len(tokens); end += 16 {
		if n.held[w][tokenKey(tokens[:end])] == 0 {
			break
		}
		pages++
	}
	return pages
}

// Whatever is recorded, taken back, removed and added: the index knows what a simple one knows.
func TestShelvesKnowWhatSimpleOnesKnow(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 5))
		registry, all := fleet(t, 5)
		ix, model := newShelved(0), &simpleShelves{map[*workers.Worker]map[string]int{}, map[*workers.Worker][]int{}, 0, 40}
		for _, w := range all {
			says(w, workers.RankLoad{Capacity: 40 * 16})
		}
		prompt := func() []uint32 { // few branches, so that much is shared
			var tokens []uint32
			for len(tokens) < 16*(1+r.IntN(50)) {
				tokens = append(tokens, ids(r.IntN(2)+10*len(tokens), 16*(1+r.IntN(6)))...)
			}
			return tokens
		}
		for k := range 1500 {
			i := r.IntN(len(all))
			switch tokens := prompt(); {
			case k%100 == 99: // another worker in the same slot
				slot := all[i].Slot()
				require.True(t, registry.Remove(all[i]))
				ix.remove(all[i])
				delete(model.held, all[i])
				all[i] = worker(t, fmt.Sprintf("http://127.0.0.1:%d", 1000+k), nil)
				says(all[i], workers.RankLoad{Capacity: 40 * 16})
				require.NoError(t, registry.Add(all[i]))
				require.Equal(t, slot, all[i].Slot())
			default:
				ix.put(all[i], tokens)
				model.put(all[i], tokens)
			}
			if k%10 == 0 {
				asked := prompt()
				for i, w := range all {
					require.Equal(t, model.has(w, asked), ix.has(w, asked), "seed %d, step %d, worker %d", seed, k, i)
				}
			}
			if k%50 == 0 {
				audit(t, ix.workIndex)
			}
		}
		audit(t, ix.workIndex)
	}
}

// What a removed worker held is collected with later choices, before anything of the slot's new owner, which holds what is its own.
func TestWhatARemovedWorkerHeldIsCollected(t *testing.T) {
	registry, all := fleet(t, 2)
	gone, keeper := all[0], all[1]
	ix := newShelved(0)
	prompt := ids(1, 30*16)
	ix.put(keeper, ids(9, 16))
	ix.put(gone, ids(0, 300_000))
	ix.put(gone, prompt)
	require.True(t, registry.Remove(gone))
	ix.remove(gone)
	next := worker(t, "http://127.0.0.1:99", nil)
	says(next, workers.RankLoad{Capacity: 10 * 16})
	require.NoError(t, registry.Add(next))
	require.Equal(t, gone.Slot(), next.Slot())
	require.Zero(t, ix.has(next, prompt))
	ix.put(next, prompt[:10*16])
	require.Equal(t, 10, ix.has(next, prompt), "what is void behind it does not count")
	ix.put(next, ids(2, 10*16))
	require.Zero(t, ix.has(next, prompt))
	require.NotEmpty(t, ix.litter)
	audit(t, ix.workIndex)
	says(next, workers.RankLoad{Capacity: 100 * 16})
	ix.put(next, prompt)
	require.Equal(t, 30, ix.has(next, prompt))
	audit(t, ix.workIndex)
	for k := range 100 {
		ix.put(keeper, ids(9, 16))
		ix.put(next, ids(20+k%3, 16))
	}
	require.Empty(t, ix.litter)
	require.Equal(t, 30, ix.has(next, prompt))
	audit(t, ix.workIndex)
}

// A failed choice is taken back from the end, and behind its end may stand what was evicted and is not collected yet.
func TestTakingBackLeavesNoPageWithoutTheOneBeforeIt(t *testing.T) {
	_, all := fleet(t, 1)
	ix := newShelved(0)
	prompt := ids(1, 5000*16)
	ix.put(all[0], prompt)
	says(all[0], workers.RankLoad{Capacity: 10 * 16})
	ix.put(all[0], ids(2, 10*16))
	require.NotEmpty(t, ix.litter)
	placed := ix.put(all[0], prompt[:10*16])
	require.Equal(t, 10, ix.has(all[0], prompt))
	ix.undo(placed)
	audit(t, ix.workIndex)
	require.Zero(t, ix.has(all[0], prompt))
	require.Empty(t, ix.litter)
}

// When the last worker goes, nothing counts as in use, though what earlier ones held was not collected.
func TestAnEmptyIndexTakesNoMemory(t *testing.T) {
	_, all := fleet(t, 2)
	ix := newShelved(0)
	for _, w := range all {
		ix.put(w, ids(0, 1000*16))
	}
	require.NotZero(t, ix.holdings)
	for _, w := range all {
		ix.remove(w)
	}
	require.Zero(t, ix.memory.used.Load())
	audit(t, ix.workIndex)
}

// Taking back in any order leaves an index that is whole, and takes nothing that a success has left.
func TestTakingBackLeavesShelvesWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	_, all := fleet(t, 3)
	for _, w := range all {
		says(w, workers.RankLoad{Capacity: 60 * 16})
	}
	ix := newShelved(0)
	var open []placement
	for k := range 3000 {
		tokens := append(ids(r.IntN(4), 16*(1+r.IntN(10))), ids(10+r.IntN(30), 16*r.IntN(20))...)
		open = append(open, ix.put(all[r.IntN(3)], tokens))
		if len(open) > 5 {
			i := r.IntN(len(open))
			if r.IntN(2) == 0 {
				ix.undo(open[i])
			}
			open = slices.Delete(open, i, i+1)
		}
		if k%20 == 0 {
			audit(t, ix.workIndex)
		}
	}
}

// Requests, ends, failures and removals at once: the books come out even.
func TestLeastWorkIsEvenAfterEverything(t *testing.T) {
	registry, all := fleet(t, 6)
	p := LeastWork(BuiltIn(Shared{}), slog.New(slog.DiscardHandler)).(*leastWork)
	w := &works{leastWork: p}
	list := pool(registry)
	var clients sync.WaitGroup
	for client := range 16 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(client), 1))
			for range 200 {
				x := streamed(append(ids(r.IntN(5), 16*r.IntN(40)), ids(10+r.IntN(1000), 16*r.IntN(10))...)...)
				x.Body.Stream = r.IntN(2) == 0
				x.BeginAttempt()
				i := p.Select(x, list)
				x.Legs.Add(list.At(i), workers.Regular)
				if r.IntN(3) > 0 {
					firstByte(x)
				}
				w.end(x, []int{0, 200, 200, 500}[r.IntN(4)])
				if r.IntN(100) == 0 {
					p.Forget(all[r.IntN(len(all))])
				}
			}
		})
	}
	clients.Wait()
	for _, of := range all {
		require.Zero(t, w.queued(of))
		require.Zero(t, w.inFlight(of))
	}
	audit(t, p.index)
}

// FuzzWorkPages: a text of any bytes is cut where characters begin, and equal beginnings have equal pages.
func FuzzWorkPages(f *testing.F) {
	f.Add("hello, world", 4, "!")
	f.Add(strings.Repeat("é", 70), 64, "x")
	f.Add("\x80\x80\x80\xff\xc3", 2, "\x80")
	f.Fuzz(func(t *testing.T, text string, chars int, tail string) {
		chars = 1 + max(0, chars%100)
		var whole, longer workPrompt
		require.Equal(t, characters(text), whole.readText(text, chars, 0))
		require.LessOrEqual(t, len(whole.pages), len(text)/chars)
		longer.readText(text+tail, chars, 0)
		sure := min(max(0, len(whole.pages)-1), len(longer.pages)) // the last page may go on, if the tail begins within a character
		require.True(t, slices.Equal(whole.pages[:sure], longer.pages[:sure]), "%v %v", whole.pages, longer.pages)
	})
}

// BenchmarkWorkIndex is a whole choice among 8 workers, per KiB of the prompt: one that is known, and one that is new.
func BenchmarkWorkIndex(b *testing.B) {
	registry, _ := fleet(b, 8)
	list := pool(registry)
	for _, kib := range []int{1, 32} {
		text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1000)[:kib<<10]
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dKiB/known=%v", kib, known), func(b *testing.B) {
				p := LeastWork(BuiltIn(Shared{}), slog.New(slog.DiscardHandler)).(*leastWork)
				x := &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: text}}
				x.Legs.Add(list.At(0), workers.Regular).Status = 200
				began, k := cpuTime(), 0
				for b.Loop() {
					k++
					if !known {
						x.Prompt.Partition = uint64(k)
					}
					x.Legs.At(0).Worker = list.At(p.Select(x, list))
					p.Ended(x)
				}
				perKiB(b, kib, began)
			})
		}
	}
}
