package policy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// naive is an index as one would write it down: for each worker, every prefix of what it was sent.
type naive []map[string]bool

func prefixes(text string) (all []string) {
	for i, c := range text {
		all = append(all, text[:i+utf8.RuneLen(c)])
	}
	return all
}

func (n naive) put(text string, w int) {
	for _, p := range prefixes(text) {
		n[w][p] = true
	}
}

func (n naive) holding(text string, w int) (units int) {
	for _, p := range prefixes(text) {
		if n[w][p] {
			units++
		}
	}
	return units
}

// keepOnly forgets what the index does not have any more.
func (n naive) keepOnly(r *rig) {
	for w := range n {
		for p := range n[w] {
			if r.holding(textPrompt(p), w) < utf8.RuneCountInString(p) {
				delete(n[w], p)
			}
		}
	}
}

// scribble is a short text of few characters, so that texts share prefixes.
func scribble() string {
	letters := []rune("aabbbé日😀")
	text := make([]rune, 1+rand.IntN(10))
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return string(text)
}

// cache-aware.md, sections 2.1 to 2.5: whatever is done in whatever order, the index knows what the naive one knows, its counters
// are right, and who has a prefix has what is above it.
func TestIndexAgreesWithANaiveOne(t *testing.T) {
	histories := 40
	if raceEnabled {
		histories = 8
	}
	for range histories {
		const n = 4
		r := newRig(t, n, Settings{})
		model := naive{{}, {}, {}, {}}
		for range 300 {
			text, w := scribble(), rand.IntN(n)
			switch dice := rand.IntN(100); {
			case dice < 70:
				r.put(textPrompt(text), w)
				model.put(text, w)
			case dice < 80:
				p := textPrompt(text)
				given := r.put(p, w)
				if rand.IntN(2) == 0 {
					r.texts().evict(0, inUnits) // joins
				}
				r.takeBack(&p, given)
			case dice < 90:
				before := r.total()
				r.shrink(before * 9 / 10)
				require.LessOrEqual(t, r.total(), before*9/10)
				model.keepOnly(r)
			case dice < 95:
				r.forget(r.workers[w])
				r.workers[w] = worker(t, r.workers[w].URL(), nil)
				require.NoError(t, registerLike(r.workers[w], w, n))
				model[w] = map[string]bool{}
			default:
				r.sweep()
			}
			asked := scribble()
			for w := range n {
				require.Equal(t, model.holding(asked, w), r.holding(textPrompt(asked), w), "%q at worker %d", asked, w)
			}
		}
		for w := range n {
			require.Equal(t, len(model[w]), r.units(w), "a unit for each prefix")
		}
		r.audit()
	}
}

// registerLike gives a worker the slot that it would have in a registry of n.
func registerLike(w *workers.Worker, slot, n int) error {
	registry := workers.NewRegistry()
	for i := range n {
		other := w
		if i != slot {
			var err error
			if other, err = workers.New(workers.NewSpec("http://127.0.0.1:"+string(rune('1'+i))+"0000"), workers.DefaultSettings()); err != nil {
				return err
			}
		}
		if err := registry.Add(other); err != nil {
			return err
		}
	}
	return nil
}

// cache-aware.md, section 7: many at once record, look up, take back, evict and remove; then every counter equals a recount.
func TestIndexIsRightAfterManyUsedItAtOnce(t *testing.T) {
	rounds := 10_000
	if testing.Short() || raceEnabled { // which makes it ten times as slow
		rounds = 300
	}
	const n, goroutines = 8, 16
	r := newRig(t, n, Settings{IndexMemory: 4 << 20, MaxTreeSize: 200_000})
	var current [n]atomic.Pointer[workers.Worker]
	for i, w := range r.workers {
		current[i].Store(w)
	}
	var replacing sync.Mutex
	registry, due := workers.NewRegistry(), make(chan struct{}, 1)
	var busy sync.WaitGroup
	for range goroutines {
		busy.Go(func() {
			for range rounds {
				i := rand.IntN(n)
				p := textPrompt(prose(rand.IntN(12)*50, uint64(rand.IntN(4))) + scribble())
				if rand.IntN(4) == 0 {
					p = sequence(rand.IntN(3)*8, rand.IntN(200))
				}
				p.Partition = uint64(rand.IntN(3))
				v := r.look("m", &p)
				given := r.record(v, current[i].Load())
				v.close()
				switch rand.IntN(100) {
				case 0, 1, 2:
					r.takeBack(&p, given)
				case 4, 5:
					select {
					case due <- struct{}{}:
					default:
					}
				case 3:
					replacing.Lock()
					was := current[i].Load()
					fresh, err := workers.New(workers.NewSpec(was.URL()), workers.DefaultSettings())
					if err == nil {
						registry.Remove(was)
						_ = registry.Add(fresh)
						current[i].Store(fresh)
					}
					replacing.Unlock()
					r.forget(was)
				}
			}
		})
	}
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for range due {
			r.sweep()
			r.shrink(rand.IntN(200_000))
		}
	})
	busy.Wait()
	close(due)
	keeping.Wait()
	r.audit()
	r.sweep()
	r.audit()
	for i := range current {
		r.forget(current[i].Load())
	}
	r.sweep()
	require.Empty(t, *r.trees.Load())
	require.Zero(t, r.memory.used.Load(), "nothing is left of a fleet that is gone")
}

// cache-aware.md, section 7: a reader never sees a split half done, nor a join: what a worker has it has all the time.
func TestAPrefixIsThereWhileItIsSplitAndJoined(t *testing.T) {
	r := newRig(t, 2, Settings{})
	whole := textPrompt(prose(3000, 1))
	r.put(whole, 0)
	var splitting sync.WaitGroup
	for g := range 4 {
		splitting.Go(func() {
			for i := range 500 {
				cut := 1 + (i*7+g*13)%2990
				p := textPrompt(whole.Text[:cut] + "!")
				given := r.put(p, i%2)
				r.takeBack(&p, given)
				if i%50 == 0 {
					r.put(whole, 0)
					r.texts().evict(0, inUnits)
				}
			}
		})
	}
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if n := r.holding(whole, 0); n != 3000 {
					t.Errorf("%d of 3000", n)
					return
				}
			}
		}
	})
	splitting.Wait()
	close(done)
	reading.Wait()
	r.audit()
}

// A prompt of any shape costs what its length costs.
func TestNoPromptBlowsTheIndexUp(t *testing.T) {
	size, prefixes := 10<<20, 5000
	if raceEnabled {
		size, prefixes = 1<<20, 1000
	}
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	repeated := make([]byte, size)
	for i := range repeated {
		repeated[i] = 'a'
	}
	continuing := make([]byte, size)
	for i := range continuing {
		continuing[i] = 0x80
	}
	for name, text := range map[string]string{"repeated": string(repeated), "noise": string(noise), "continuing": string(continuing)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, Settings{})
			p := textPrompt(text)
			r.put(p, 0)
			require.Less(t, r.memory.used.Load(), int64(size)*115/100)
			matched, input := r.has(p, 0)
			require.Equal(t, input, matched)
			r.put(textPrompt(text[:size/2]), 1)
			r.put(textPrompt(text[:size/3]+"x"+text[size/3:]), 1)
			r.audit()
			r.texts().evict(r.texts().bytes.Load(), inBytes)
			r.texts().evict(r.texts().bytes.Load(), inBytes)
			r.audit()
		})
	}
	t.Run("every prefix of a prompt", func(t *testing.T) {
		r := newRig(t, 1, Settings{})
		for i := range prefixes {
			r.put(textPrompt(string(repeated[:i+1])), 0)
		}
		require.Equal(t, prefixes, r.total())
		r.shrink(0)
		r.audit()
	})
}

// FuzzIndex records and looks up whatever bytes come, in both trees.
func FuzzIndex(f *testing.F) {
	f.Add("hello", "help!", uint8(16), uint64(0))
	f.Add("日本語テキスト", "日本語モデル", uint8(1), uint64(3))
	f.Add("\x80\x80\xff\xc3", "\x80\x80\xff\xc3\xa9", uint8(2), uint64(0))
	f.Add("", "a\x80\x80\x80\x80\x80b", uint8(0), uint64(1))
	f.Fuzz(func(t *testing.T, one, other string, page uint8, partition uint64) {
		r := newRig(t, 2, Settings{BlockSize: int(page)})
		for _, tokens := range []bool{false, true} {
			both := make([]pipeline.RoutingPrompt, 2)
			for i, s := range []string{one, other} {
				both[i] = pipeline.RoutingPrompt{Text: s, Partition: partition}
				if tokens {
					both[i].Text = ""
					for _, c := range []byte(s) {
						both[i].Tokens = append(both[i].Tokens, uint32(c))
					}
				}
				r.put(both[i], i)
			}
			for i, p := range both {
				matched, input := r.has(p, i)
				require.LessOrEqual(t, matched, input)
				if !tokens && utf8.ValidString(p.Text) {
					require.Equal(t, utf8.RuneCountInString(p.Text), matched)
				}
				require.LessOrEqual(t, r.holding(p, 1-i), matched)
			}
			r.audit()
		}
		p := pipeline.RoutingPrompt{Text: one + other, Partition: partition}
		r.takeBack(&p, r.put(p, 0))
		r.audit()
		r.shrink(0)
		r.audit()
	})
}
