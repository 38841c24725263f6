package policy

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// works is a least_work whose clock the test moves, and what it is asked.
type works struct {
	*leastWork
	now time.Time
}

func newWorks(t testing.TB) *works {
	t.Helper()
	w := &works{now: time.Now()}
	s := BuiltIn(Shared{Clock: func() time.Time { return w.now }})
	w.leastWork = LeastWork(s, slog.New(slog.DiscardHandler)).(*leastWork)
	return w
}

func (w *works) sleep(d time.Duration) { w.now = w.now.Add(d) }

// ids are n token ids that no other series shares.
func ids(series, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(series<<20 | i)
	}
	return tokens
}

func streamed(tokens ...uint32) *pipeline.Exchange {
	return &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: tokens}, Body: pipeline.RequestBody{Stream: true}}
}

func unstreamed(tokens ...uint32) *pipeline.Exchange {
	return &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: tokens}}
}

// send chooses and sends, as the stages would.
func (w *works) send(t testing.TB, x *pipeline.Exchange, among ...*workers.Worker) *workers.Worker {
	t.Helper()
	x.BeginAttempt()
	i := w.Select(x, workers.ListOf(among...))
	require.GreaterOrEqual(t, i, 0)
	x.Legs.Add(among[i], among[i].Type())
	return among[i]
}

// firstByte is the first byte of the answer.
func firstByte(x *pipeline.Exchange) { x.TellFirstByte(x.Legs.Last()) }

// end ends the attempt with a status; 0 is none.
func (w *works) end(x *pipeline.Exchange, status int) {
	x.Legs.Last().Status = status
	w.Ended(x)
}

// serve sends and ends well.
func (w *works) serve(t testing.TB, x *pipeline.Exchange, among ...*workers.Worker) *workers.Worker {
	t.Helper()
	chosen := w.send(t, x, among...)
	w.end(x, 200)
	return chosen
}

// weigh is what each candidate's score is, and the part of one name in each.
func (w *works) weigh(x *pipeline.Exchange, part string, all ...*workers.Worker) (scores, parts []float64) {
	x.DryRun, x.Explain = true, &pipeline.Explanation{}
	defer func() { x.DryRun, x.Explain = false, nil }()
	w.Select(x, workers.ListOf(all...))
	for _, s := range x.Explain.Scores {
		scores = append(scores, s.Value)
		for _, p := range s.Parts {
			if p.Name == part {
				parts = append(parts, p.Value)
			}
		}
	}
	return scores, parts
}

// queued and inFlight are the books on a worker.
func (w *works) queued(of *workers.Worker) float64 {
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	now, l := w.books.now(), w.books.ledger(of)
	l.settle(now)
	return l.tokens(now)
}

func (w *works) inFlight(of *workers.Worker) int64 {
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	return w.books.ledger(of).inFlight
}

// least-work.md, section 6
func TestLeastWorkWeighsTheCacheAgainstTheQueue(t *testing.T) {
	prompt := ids(1, 7000)
	t.Run("of idle workers that hold nothing any is chosen", func(t *testing.T) {
		_, all := fleet(t, 2)
		counts := map[*workers.Worker]int{}
		for range 400 {
			counts[newWorks(t).serve(t, streamed(prompt...), all...)]++
		}
		require.InDelta(t, 200, counts[all[0]], 60)
		require.Len(t, counts, 2)
	})
	t.Run("of idle workers the one that holds the prompt", func(t *testing.T) {
		_, all := fleet(t, 2)
		w := newWorks(t)
		w.serve(t, streamed(prompt[:6000]...), all[0])
		scores, _ := w.weigh(streamed(prompt...), "", all...)
		require.Equal(t, []float64{2000, 14000}, scores)
		require.Same(t, all[0], w.send(t, streamed(prompt...), all...))
	})
	t.Run("but not when too much waits there", func(t *testing.T) {
		_, all := fleet(t, 2)
		w := newWorks(t)
		w.serve(t, streamed(prompt[:6000]...), all[0])
		for range 20 {
			w.books.book(all[0], 1500, true, w.books.now())
		}
		scores, _ := w.weigh(streamed(prompt...), "", all...)
		require.Equal(t, []float64{38400, 14000}, scores)
		require.Same(t, all[1], w.send(t, streamed(prompt...), all...))
	})
}

// least-work.md, section 6
func TestAWastedTokenWeighsMoreTheBusierTheFleetIs(t *testing.T) {
	for share, want := range map[float64]float64{0: 2, 0.5: 3, 0.9: 11, 0.95: 11, 1: 11, -1e-17: 2} {
		require.InDelta(t, want, tokenPrice(share), 1e-9, "share %v", share)
	}
}

// least-work.md, section 1: the share is taken exponentially over 30 s, and is the mean over the candidates.
func TestTheBusyShareFollowsTheQueues(t *testing.T) {
	_, all := fleet(t, 2)
	w := newWorks(t)
	price := func(of ...*workers.Worker) float64 {
		_, prompt := w.weigh(streamed(ids(9, 1000)...), "prompt", of...)
		return prompt[0] / 1000
	}
	x := streamed(ids(1, 100)...)
	w.send(t, x, all[0])
	require.InDelta(t, 2, price(all[0]), 1e-9, "it has only become busy")
	w.sleep(30 * time.Second)
	share := 1 - math.Exp(-1)
	require.InDelta(t, 1+1/(1-share), price(all[0]), 1e-9)
	require.InDelta(t, 1+1/(1-share/2), price(all...), 1e-9, "the other one is idle")
	firstByte(x)
	w.sleep(15 * time.Second)
	share *= math.Exp(-0.5)
	require.InDelta(t, 1+1/(1-share), price(all[0]), 1e-9, "in flight, but nothing waits")
	w.end(x, 200)
	w.send(t, streamed(ids(2, 100)...), all[0])
	w.sleep(24 * time.Hour)
	require.InDelta(t, 11, price(all[0]), 1e-9, "for ever is not longer than long")
	require.InDelta(t, 2, price(all[1]), 1e-9)
}

// least-work.md, sections 2 and 6
func TestWorkLeavesTheQueueOnce(t *testing.T) {
	tests := []struct {
		name   string
		events func(w *works, x *pipeline.Exchange)
		queued float64
		flight int64
	}{
		{"at the choice it is queued", func(*works, *pipeline.Exchange) {}, 1000, 1},
		{"a head says nothing", func(_ *works, x *pipeline.Exchange) { x.TellHead(x.Legs.Last(), 200) }, 1000, 1},
		{"the first byte takes it off", func(_ *works, x *pipeline.Exchange) { firstByte(x) }, 0, 1},
		{"twice is once", func(_ *works, x *pipeline.Exchange) { firstByte(x); firstByte(x) }, 0, 1},
		{"the end ends the flight", func(w *works, x *pipeline.Exchange) { firstByte(x); firstByte(x); w.end(x, 200) }, 0, 0},
		{"a cancel before the first byte takes both back", func(w *works, x *pipeline.Exchange) { w.end(x, 0) }, 0, 0},
		{"so does an error", func(w *works, x *pipeline.Exchange) { x.TellHead(x.Legs.Last(), 500); w.end(x, 500) }, 0, 0},
		{"an end is one end", func(w *works, x *pipeline.Exchange) { w.end(x, 200); w.end(x, 200); firstByte(x) }, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, all := fleet(t, 1)
			w := newWorks(t)
			other := streamed(ids(2, 300)...)
			w.send(t, other, all[0])
			x := streamed(ids(1, 1000)...)
			w.send(t, x, all[0])
			tt.events(w, x)
			require.InDelta(t, tt.queued+300, w.queued(all[0]), 0)
			require.Equal(t, tt.flight+1, w.inFlight(all[0]))
			firstByte(other)
			w.end(other, 200)
			require.InDelta(t, tt.queued, w.queued(all[0]), 0)
			require.Equal(t, tt.flight, w.inFlight(all[0]))
		})
	}
}

// least-work.md, section 2: an answer that is not streamed shows no early byte; its work drains at 12,000 tokens a second.
func TestUnstreamedWorkDrains(t *testing.T) {
	_, all := fleet(t, 1)
	w := newWorks(t)
	first, second := unstreamed(ids(1, 12000)...), unstreamed(ids(2, 6000)...)
	w.send(t, first, all[0])
	w.sleep(250 * time.Millisecond)
	w.send(t, second, all[0])
	require.InDelta(t, 9000+6000, w.queued(all[0]), 1e-6)
	firstByte(first)
	w.sleep(250 * time.Millisecond)
	require.InDelta(t, 6000+3000, w.queued(all[0]), 1e-6, "each drains by itself; an early byte changes nothing")
	scores, queued := w.weigh(unstreamed(), "queued_tokens", all...)
	require.InDelta(t, 9000, queued[0], 1e-6)
	require.InDelta(t, 9000+2*inFlightCost+2, scores[0], 0.2, "what is read at a choice is the same sum")
	w.sleep(300 * time.Millisecond)
	require.InDelta(t, 2400, w.queued(all[0]), 1e-6)
	w.end(first, 200)
	require.Zero(t, w.queued(all[0]), "the second has drained, the first has ended")
	require.EqualValues(t, 1, w.inFlight(all[0]))
	w.end(second, 200)
	require.Zero(t, w.inFlight(all[0]))
}

// least-work.md, section 2: an answer whose body is not parsed is not known to be streamed.
func TestWorkOfABodyThatIsNotReadDrains(t *testing.T) {
	_, all := fleet(t, 1)
	w := newWorks(t)
	x := &pipeline.Exchange{Body: pipeline.RequestBody{Streamed: true, Stream: true, Bytes: make([]byte, 4800)}}
	w.send(t, x, all[0])
	require.InDelta(t, 1200, w.queued(all[0]), 0, "a quarter of its length")
	firstByte(x)
	w.sleep(50 * time.Millisecond)
	require.InDelta(t, 600, w.queued(all[0]), 1e-6)
	w.sleep(time.Second)
	require.Zero(t, w.queued(all[0]))
	w.end(x, 200)
}

// The end of a drain is when the worker turned idle, however late that is noticed; and seconds are counted from somewhere else now and
// then, which nobody sees.
func TestTheBooksSurviveTimeWithoutRequests(t *testing.T) {
	_, all := fleet(t, 2)
	w, twin := newWorks(t), newWorks(t)
	share := func(w *works) float64 {
		w.books.mu.Lock()
		defer w.books.mu.Unlock()
		now, l := w.books.now(), w.books.ledger(all[0])
		l.settle(now)
		return l.share(now)
	}
	for _, w := range []*works{w, twin} {
		w.send(t, unstreamed(ids(1, 120_000)...), all[0]) // ten seconds
	}
	for range 10 {
		twin.sleep(4 * time.Second)
		twin.queued(all[0])
	}
	w.sleep(40 * time.Second)
	want := (1 - math.Exp(-10.0/30)) * math.Exp(-30.0/30)
	require.InDelta(t, want, share(w), 1e-9)
	require.InDelta(t, want, share(twin), 1e-9)

	w.sleep(540 * time.Second)
	w.send(t, unstreamed(ids(2, 1_200_000)...), all[0]) // a hundred seconds
	w.sleep(50 * time.Second)                           // beyond the ten minutes after which the books are rebased
	require.InDelta(t, 600_000, w.queued(all[0]), 1e-3)
	require.InDelta(t, 1-math.Exp(-50.0/30), share(w), 1e-6)
	w.sleep(50 * time.Second)
	require.Zero(t, w.queued(all[0]))
	w.sleep(24 * time.Hour)
	require.InDelta(t, 0, share(w), 1e-9)
}

// least-work.md, sections 1 and 6
func TestRequestsBeyondTheRunningLimitWeigh(t *testing.T) {
	limited := func(label string) *workers.Worker {
		w := worker(t, "http://127.0.0.1:7", map[string]string{label: "4"})
		require.NoError(t, workers.NewRegistry().Add(w))
		return w
	}
	tests := []struct {
		name   string
		worker *workers.Worker
		report int64 // the limit that it reports; 0: it has no report
		flight int
		want   float64
	}{
		{"no limit is known", limited("other"), 0, 4, 0},
		{"there is room for it", limited("max_num_seqs"), 0, 3, 0},
		{"it would be one too many", limited("max_num_seqs"), 0, 4, 1600},
		{"the other engine's label", limited("max_running_requests"), 0, 4, 1600},
		{"three too many", limited("max_running_requests"), 0, 6, 4800},
		{"a report says it", limited("other"), 4, 4, 1600},
		{"a report knows better than a label", limited("max_num_seqs"), 8, 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorks(t)
			if tt.report > 0 {
				says(tt.worker, workers.RankLoad{RunningLimit: tt.report})
			}
			for range tt.flight {
				w.send(t, streamed(), tt.worker)
			}
			_, over := w.weigh(streamed(), "over_limit", tt.worker)
			require.Equal(t, []float64{tt.want}, over)
			tt.worker.SetReport(nil)
			_, over = w.weigh(streamed(), "over_limit", tt.worker)
			require.Equal(t, []float64{tt.want}, over, "a limit does not change because a poll has failed")
		})
	}
}

// least-work.md, section 6
func TestABurstOnOnePrefixTakesAsFewWorkersAsItNeeds(t *testing.T) {
	_, all := fleet(t, 8)
	w := newWorks(t)
	shared := ids(1, 20_000)
	counts := map[*workers.Worker]int{}
	for k := range 32 {
		counts[w.send(t, streamed(append(slices.Clone(shared), ids(100+k, 500)...)...), all...)]++
		w.sleep(20 * time.Millisecond)
	}
	require.Len(t, counts, 2, "six compute nothing")
	var each []int
	for _, n := range counts {
		each = append(each, n)
	}
	slices.Sort(each)
	require.InDelta(t, 25, each[1], 1)
	require.InDelta(t, 7, each[0], 1)
}

// least-work.md, section 6
func TestARemovedWorkersBooksVanish(t *testing.T) {
	registry, all := fleet(t, 2)
	w := newWorks(t)
	var late []*pipeline.Exchange
	for k := range 5 {
		x := streamed(ids(k, 1000)...)
		if k%2 == 0 {
			x = unstreamed(ids(k, 1000)...)
		}
		w.send(t, x, all[0])
		late = append(late, x)
	}
	require.True(t, registry.Remove(all[0]))
	w.Forget(all[0])
	next := worker(t, "http://127.0.0.1:99", nil)
	require.NoError(t, registry.Add(next))
	require.Equal(t, all[0].Slot(), next.Slot(), "it has the place of the other one")
	w.send(t, streamed(ids(9, 700)...), next)
	for _, x := range late {
		firstByte(x)
		w.end(x, 500)
	}
	require.InDelta(t, 700, w.queued(next), 0)
	require.EqualValues(t, 1, w.inFlight(next))
	scores, _ := w.weigh(streamed(ids(0, 1000)...), "", next)
	require.Equal(t, []float64{700 + 320 + 2000}, scores, "nor does it hold what the other one held")
	audit(t, w.index)
}

// least-work.md, section 2: a look at a list of a moment ago, on which a removed worker is, changes nothing of what its slot's new owner has,
// and puts nothing on its shelf.
func TestALateLookAtARemovedWorkerChangesNothing(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, w *works, gone *workers.Worker){
		"an explanation": func(_ *testing.T, w *works, gone *workers.Worker) { w.weigh(streamed(ids(5, 1000)...), "", gone) },
		"a choice that fails": func(t *testing.T, w *works, gone *workers.Worker) {
			x := streamed(ids(5, 1000)...)
			w.send(t, x, gone)
			firstByte(x)
			w.end(x, 500)
		},
		"a choice that succeeds": func(t *testing.T, w *works, gone *workers.Worker) { w.serve(t, unstreamed(ids(5, 1000)...), gone) },
	} {
		t.Run(name, func(t *testing.T) {
			registry, all := fleet(t, 2)
			w := newWorks(t)
			gone := all[0]
			w.serve(t, streamed(ids(1, 1000)...), all[1])
			require.True(t, registry.Remove(gone))
			w.Forget(gone)
			look(t, w, gone)
			require.Zero(t, w.index.shelf(gone).pages, "the slot is nobody's")

			next := worker(t, "http://127.0.0.1:99", nil)
			require.NoError(t, registry.Add(next))
			require.Equal(t, gone.Slot(), next.Slot())
			x := streamed(ids(2, 700)...)
			w.send(t, x, next)
			look(t, w, gone)
			require.InDelta(t, 700, w.queued(next), 0)
			require.EqualValues(t, 1, w.inFlight(next))
			firstByte(x)
			w.end(x, 200)
			require.Zero(t, w.inFlight(next))
			scores, _ := w.weigh(streamed(ids(2, 700)...), "", next)
			require.Equal(t, []float64{2 * (700 - 688)}, scores, "it holds what it was sent")
			audit(t, w.index)
		})
	}
}

// DECISIONS, 59
func TestTheBooksAreSharedByAllInstances(t *testing.T) {
	_, all := fleet(t, 2)
	set, err := NewSet("least_work", BuiltIn(Shared{}), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	other, err := New("least_work", set.settings, nil)
	require.NoError(t, err)
	one, two := &works{leastWork: set.Default().(*leastWork)}, &works{leastWork: other.(*leastWork)}
	require.NotSame(t, one.leastWork, two.leastWork)
	x := streamed(ids(1, 1000)...)
	one.send(t, x, all[0])
	require.InDelta(t, 1000, two.queued(all[0]), 0)
	require.Same(t, all[1], two.send(t, streamed(), all...))
	one.end(x, 200)
	require.Zero(t, two.inFlight(all[0]))
}

// DECISIONS, 2: followers find what is being computed; a failed attempt leaves no belief, unless somebody follows it.
func TestLeastWorkTakesAFailedAttemptBack(t *testing.T) {
	prompt := ids(1, 3200)
	held := func(w *works, all []*workers.Worker) int {
		_, parts := w.weigh(streamed(prompt...), "prompt", all[0])
		return 3200 - int(math.Round(parts[0]/2))
	}
	tests := []struct {
		name string
		run  func(t *testing.T, w *works, all []*workers.Worker)
		want int
	}{
		{"while it runs it counts", func(t *testing.T, w *works, all []*workers.Worker) { w.send(t, streamed(prompt[:1600]...), all[0]) }, 1600},
		{"a success stays", func(t *testing.T, w *works, all []*workers.Worker) { w.serve(t, streamed(prompt[:1600]...), all[0]) }, 1600},
		{"a failure is taken back", func(t *testing.T, w *works, all []*workers.Worker) {
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			w.end(x, 503)
		}, 0},
		{"so is one that the client has left before the head", func(t *testing.T, w *works, all []*workers.Worker) {
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			w.end(x, 0)
		}, 0},
		{"a stream that breaks behind its head stays", func(t *testing.T, w *works, all []*workers.Worker) {
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			x.Legs.Last().Outcome = pipeline.Broken
			w.end(x, 200)
		}, 1600},
		{"what was there before stays", func(t *testing.T, w *works, all []*workers.Worker) {
			w.serve(t, streamed(prompt[:800]...), all[0])
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			w.end(x, 500)
		}, 800},
		{"what a later one has extended stays", func(t *testing.T, w *works, all []*workers.Worker) {
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			w.serve(t, streamed(prompt[:2400]...), all[0])
			w.end(x, 500)
		}, 2400},
		{"what a later one has matched in part stays in part", func(t *testing.T, w *works, all []*workers.Worker) {
			x := streamed(prompt[:1600]...)
			w.send(t, x, all[0])
			w.serve(t, streamed(prompt[:400]...), all[0])
			w.end(x, 500)
		}, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, all := fleet(t, 2)
			w := newWorks(t)
			tt.run(t, w, all)
			for _, x := range all {
				w.books.forget(x) // so that nothing but the prompt weighs
			}
			require.Equal(t, tt.want, held(w, all))
			audit(t, w.index)
		})
	}
}

// least-work.md, section 2: a retry books again, on its own worker.
func TestARetryBooksAgain(t *testing.T) {
	_, all := fleet(t, 2)
	w := newWorks(t)
	x := streamed(ids(1, 1000)...)
	w.send(t, x, all[0])
	w.end(x, 503)
	w.send(t, x, all[1])
	require.Zero(t, w.inFlight(all[0]))
	require.EqualValues(t, 1, w.inFlight(all[1]))
	require.InDelta(t, 1000, w.queued(all[1]), 0)
	firstByte(x)
	require.Zero(t, w.queued(all[1]))
	w.end(x, 200)
	require.Zero(t, w.inFlight(all[1]))
}

// least-work.md, section 1: how long a prompt is.
func TestLeastWorkMeasuresPrompts(t *testing.T) {
	body := pipeline.RequestBody{Bytes: make([]byte, 8000)}
	tests := []struct {
		name string
		x    *pipeline.Exchange
		want float64 // tokens
	}{
		{"token ids are known", &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: ids(1, 77)}, Body: body}, 77},
		{"a text is a quarter of its characters, rounded up", &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: strings.Repeat("ä", 401)}, Body: body}, 101},
		{"a hint is a head: the body tells the length", &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: ids(1, 77), Hinted: true}, Body: body}, 2000},
		{"unless the hint is longer", &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: ids(1, 3000), Hinted: true}, Body: body}, 3000},
		{"a body that nobody reads is a quarter of its length", &pipeline.Exchange{Body: body}, 2000},
		{"nothing at all is one token", &pipeline.Exchange{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, all := fleet(t, 1)
			scores, _ := newWorks(t).weigh(tt.x, "", all...)
			require.InDelta(t, 2*tt.want, scores[0], 0)
		})
	}
}

// least-work.md, section 1: what a worker holds counts in whole pages, and a prompt that it holds to its end still costs a token.
func TestWhatIsHeldCountsInWholePages(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 100) // 1600 characters, 25 pages
	tests := []struct {
		name           string
		held, prompt   string
		tokens, misses int
	}{
		{"all of it", text, text, 400, 1},
		{"a page is 64 characters", text[:64], text, 400, 384},
		{"less than a page is nothing", text[:63], text, 400, 400},
		{"one page and a bit", text[:127], text, 400, 384},
		{"characters, not bytes", strings.Repeat("é", 128), strings.Repeat("é", 128) + text, 432, 400},
		{"a character that begins with the same byte is another one", strings.Repeat("é", 128), strings.Repeat("é", 127) + "è" + text, 432, 416},
		{"another beginning is another prompt", "X" + text, text, 400, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, all := fleet(t, 1)
			w := newWorks(t)
			w.serve(t, &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: tt.held}}, all...)
			x := &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: tt.prompt}}
			scores, _ := w.weigh(x, "", all...)
			require.InDelta(t, 2*tt.misses, scores[0], 0)
		})
	}
}

// cache-aware.md, 1.3: equal prompts in different partitions share nothing; nor do text and token ids.
func TestPartitionsShareNoWork(t *testing.T) {
	_, all := fleet(t, 1)
	w := newWorks(t)
	prompt := pipeline.RoutingPrompt{Tokens: ids(1, 160), Partition: 7}
	w.serve(t, &pipeline.Exchange{Prompt: prompt}, all...)
	for partition, want := range map[uint64]float64{7: 2, 0: 320, 8: 320} {
		prompt.Partition = partition
		scores, _ := w.weigh(&pipeline.Exchange{Prompt: prompt}, "", all...)
		require.Equal(t, []float64{want}, scores, "partition %d", partition)
	}
	text := tokenKey(slices.Repeat([]uint32{0x41414141}, 160)) // whose bytes are 640 characters
	w.serve(t, &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Text: text}}, all...)
	scores, _ := w.weigh(streamed(slices.Repeat([]uint32{0x41414141}, 160)...), "", all...)
	require.Equal(t, []float64{320}, scores)
}

// policies.md, section 22: one line for each decision, at debug level.
func TestLeastWorkTellsItsDecisions(t *testing.T) {
	said, log := newRecords()
	_, all := fleet(t, 1)
	p := LeastWork(BuiltIn(Shared{}), log)
	x := streamed(ids(1, 100)...)
	x.DryRun = true
	p.Select(x, workers.ListOf(all...))
	require.Empty(t, said.at(t, slog.LevelDebug))
	x.DryRun, x.Model = false, "m"
	p.Select(x, workers.ListOf(all...))
	lines := said.at(t, slog.LevelDebug)
	require.Len(t, lines, 1)
	delete(lines[0], "time")
	require.Equal(t, map[string]any{
		"level": "DEBUG", "msg": "least_work selection", "target": "smg::policies::least_work", "policy": "least_work",
		"worker": all[0].URL(), "model_id": "m", "score": 200.0, "tokens": 100.0, "computed": 100.0, "in_flight": 0.0,
	}, lines[0])
}
