package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// says is one load report: ranks of an engine that is asked and answers at once, before anything else happens.
func says(w *workers.Worker, ranks ...workers.RankLoad) {
	w.SetReport(workers.NewReport(time.Time{}, time.Time{}, "", ranks))
}

// load is what one rank reports: tokens that wait, share of the KV cache in use, tokens a second.
func load(tokens int64, usage, throughput float64) workers.RankLoad {
	return workers.RankLoad{WaitingTokens: tokens, Usage: usage, Throughput: throughput}
}

// sized is a client whose request has a body of so many bytes.
type sized struct {
	pipeline.Client
	bytes int64
}

func (c sized) ContentLength() int64 { return c.bytes }

// waiting is a rank of an engine that counts requests, not tokens.
func waiting(requests int64, usage, throughput float64) workers.RankLoad {
	return workers.RankLoad{Waiting: requests, Usage: usage, Throughput: throughput}
}

func busy(w *workers.Worker, requests int) {
	for range requests {
		w.Begin()
	}
}

// state is what a candidate has reported (nothing: it is dark) and has in flight.
type state struct {
	ranks    []workers.RankLoad
	inFlight int
}

func reported(ranks ...workers.RankLoad) state { return state{ranks: ranks} }
func dark(inFlight int) state                  { return state{inFlight: inFlight} }

func in(t testing.TB, states ...state) []*workers.Worker {
	t.Helper()
	_, all := fleet(t, len(states))
	for i, s := range states {
		if s.ranks != nil {
			says(all[i], s.ranks...)
		}
		busy(all[i], s.inFlight)
	}
	return all
}

// scores are what the scorer thinks of the candidates, by their place; NaN for those that it leaves out. Nothing comes of asking.
func scores(t testing.TB, s *expectedWait, all []*workers.Worker) []float64 {
	t.Helper()
	x := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
	s.pick(x, workers.ListOf(all...), nil, 0, 0)
	return rated(x.Explain, all)
}

func rated(e *pipeline.Explanation, all []*workers.Worker) []float64 {
	values := make([]float64, len(all))
	for i := range values {
		values[i] = math.NaN()
	}
	for _, score := range e.Scores {
		values[place(all, score.Worker)] = score.Value
	}
	return values
}

// chosen picks once of all.
func chosen(s *expectedWait, all []*workers.Worker, tokens int64) int {
	return s.pick(&pipeline.Exchange{}, workers.ListOf(all...), nil, tokens, 0)
}

// policies.md, section 7.4
func TestExpectedWaitScores(t *testing.T) {
	tests := []struct {
		name   string
		tuning [3]float64 // weight, throughput, mean prefill; zero is built in
		states []state
		want   []float64
		picks  int
	}{
		{
			"fewer queued tokens win",
			[3]float64{},
			[]state{reported(load(8000, 0.2, 100)), reported(load(1000, 0.2, 100))},
			[]float64{80.0375, 10.0375},
			1,
		},
		{
			"the same queue is shorter at a faster engine",
			[3]float64{},
			[]state{reported(load(5000, 0.2, 50)), reported(load(5000, 0.2, 500))},
			[]float64{100.0375, 10.0375},
			1,
		},
		{
			"an engine that tells no throughput is taken for a usual one",
			[3]float64{},
			[]state{reported(load(10000, 0.2, 0)), reported(load(1000, 0.2, 0))},
			[]float64{5.0375, 0.5375},
			1,
		},
		{
			"an engine that tells none does not borrow its peer's",
			[3]float64{},
			[]state{reported(load(10000, 0.2, 100000)), reported(load(1000, 0.2, 0))},
			[]float64{0.1375, 0.5375},
			0,
		},
		{
			"requests that wait stand for tokens where those are not told",
			[3]float64{},
			[]state{reported(waiting(64, 0.2, 100)), reported(waiting(6, 0.2, 100))},
			[]float64{655.3975, 61.4775},
			1,
		},
		{
			"tokens win over requests",
			[3]float64{},
			[]state{reported(workers.RankLoad{WaitingTokens: 500, Waiting: 200, Usage: 0.2, Throughput: 100}), reported(load(600, 0.2, 100))},
			[]float64{5.0375, 6.0375},
			0,
		},
		{
			"with empty queues the fuller cache loses",
			[3]float64{},
			[]state{reported(load(0, 0.9, 100)), reported(load(0, 0.1, 100))},
			[]float64{1.35, 0.15 / 9},
			1,
		},
		{
			"usage is clamped from above and from below",
			[3]float64{},
			[]state{reported(load(0, 1, 100)), reported(load(0, 1.7, 100)), reported(load(0, -0.5, 100))},
			[]float64{149.85, 149.85, 0},
			2,
		},
		{
			"the usage of two ranks is their mean",
			[3]float64{},
			[]state{reported(load(0, 0.9, 100), load(0, 0.1, 100)), reported(load(0, 0.4, 100))},
			[]float64{0.15, 0.1},
			1,
		},
		{
			"the throughputs of two ranks are added",
			[3]float64{},
			[]state{reported(load(4000, 0, 100), load(0, 0, 300)), reported(load(1100, 0, 100))},
			[]float64{10, 11},
			0,
		},
		{
			"the queues of two ranks are added",
			[3]float64{},
			[]state{reported(load(4000, 0, 50), load(2000, 0, 50)), reported(load(5900, 0, 100))},
			[]float64{60, 59},
			1,
		},
		{
			"a rank that does not tell its tokens is estimated alone (load-signals.md, section 3.1, Check: 3572)",
			[3]float64{},
			[]state{reported(workers.RankLoad{WaitingTokens: 500, Waiting: 2, Throughput: 100}, waiting(3, 0, 0)), reported(load(3000, 0, 100))},
			[]float64{35.72, 30},
			1,
		},
		{
			"the same for the report of section 3.3 (2948)",
			[3]float64{},
			[]state{reported(workers.RankLoad{WaitingTokens: 900, Waiting: 1, Throughput: 100}, waiting(2, 0, 0)), reported(load(2000, 0, 100))},
			[]float64{29.48, 20},
			1,
		},
		{
			"a greater weight makes more of the cache",
			[3]float64{2, 2000, 1024},
			[]state{reported(load(0, 0.98, 100)), reported(load(0, 0, 100))},
			[]float64{98, 0},
			1,
		},
		{
			"a worker without a report stands behind the best by what it has in flight",
			[3]float64{},
			[]state{reported(load(4000, 0, 100)), dark(5)},
			[]float64{40, 91.2},
			0,
		},
		{
			"what the best has in flight too is in its score already",
			[3]float64{},
			[]state{{reported(load(4000, 0, 100)).ranks, 3}, dark(5)},
			[]float64{40, 40 + 2*10.24},
			0,
		},
		{
			"with no more in flight than the best it stands beside it",
			[3]float64{},
			[]state{{reported(load(1000, 0, 100)).ranks, 7}, dark(5)},
			[]float64{10, 10},
			-1,
		},
		{
			"nobody tells a throughput: the usual one serves those without a report",
			[3]float64{},
			[]state{reported(load(0, 0.9, 0)), dark(5)},
			[]float64{1.35, 3.91},
			0,
		},
		{
			"throughputs that are not told are not in the mean",
			[3]float64{},
			[]state{reported(load(1000, 0, 100)), reported(load(20000, 0, 0)), reported(load(60000, 0, 300)), dark(1)},
			[]float64{10, 10, 200, 10 + 1024.0/200},
			-1,
		},
		{
			"without any report the one with less in flight wins",
			[3]float64{},
			[]state{dark(5), dark(0)},
			[]float64{5, 0},
			1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, tt.states...)
			s := newBuiltInWait(nil)
			if tt.tuning != [3]float64{} {
				s = newExpectedWait(tt.tuning[0], tt.tuning[1], int64(tt.tuning[2]), 0, nil)
			}
			require.InDeltaSlice(t, tt.want, scores(t, s, all), 1e-4)
			if tt.picks >= 0 {
				require.Equal(t, tt.picks, chosen(s, all, 0))
			}
		})
	}
}

// policies.md, section 7.1: the table of penalties.
func TestPressureGrowsWithTheCache(t *testing.T) {
	s := newBuiltInWait(nil)
	for usage, want := range map[float64]float64{
		0: 0, 0.1: 0.016667, 0.2: 0.0375, 0.5: 0.15, 0.8: 0.6, 0.9: 1.35, 0.98: 7.35, 0.999: 149.85, 1: 149.85,
		-1: 0, math.Inf(1): 0, math.Inf(-1): 0,
	} {
		require.InDelta(t, want, s.pressure(usage), 1e-6, "usage %v", usage)
	}
	require.Zero(t, s.pressure(math.NaN()))
}

// policies.md, sections 7.2 and 7.4: what was sent since the report counts as queued.
func TestTheWinnerIsCredited(t *testing.T) {
	t.Run("twenty picks of unknown size all go to the shorter queue", func(t *testing.T) {
		all := in(t, reported(waiting(64, 0.2, 100)), reported(waiting(6, 0.2, 100)))
		s := newBuiltInWait(nil)
		for range 20 {
			require.Equal(t, 1, chosen(s, all, 0))
		}
		require.InDelta(t, 61.44+204.8+0.0375, scores(t, s, all)[1], 1e-4)
	})
	t.Run("a request of unknown size is a mean prefill, until the next report", func(t *testing.T) {
		all := in(t, reported(load(1000, 0.2, 100)), reported(load(2000, 0.2, 100)))
		s := newBuiltInWait(nil)
		require.Equal(t, 0, chosen(s, all, 0))
		require.InDelta(t, 20.2775, scores(t, s, all)[0], 1e-4)
		require.Equal(t, 1, chosen(s, all, 0))
		says(all[0], load(1000, 0.2, 100))
		says(all[1], load(2000, 0.2, 100))
		require.InDeltaSlice(t, []float64{10.0375, 20.0375}, scores(t, s, all), 1e-4)
		require.Equal(t, 0, chosen(s, all, 0))
	})
	t.Run("a request of known size is what it is", func(t *testing.T) {
		all := in(t, reported(load(0, 0.2, 100)), reported(load(2048, 0.2, 100)))
		s := newBuiltInWait(nil)
		require.Equal(t, 0, chosen(s, all, 2100))
		require.InDeltaSlice(t, []float64{21.0375, 20.5175}, scores(t, s, all), 1e-4)
		require.Equal(t, 1, chosen(s, all, 0))

		unknown := newBuiltInWait(nil)
		require.Equal(t, 0, chosen(unknown, all, 0))
		require.InDelta(t, 10.2775, scores(t, unknown, all)[0], 1e-4)
		require.Equal(t, 0, chosen(unknown, all, 0))
	})
	t.Run("a hint is only the head of a prompt", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 1)))
		s := newBuiltInWait(nil)
		hinted := &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: make([]uint32, 10), Hinted: true}}
		s.pick(hinted, workers.ListOf(all...), nil, 10, 0)
		require.InDelta(t, 1024, scores(t, s, all)[0], 1e-6)
		s.pick(hinted, workers.ListOf(all...), nil, 3000, 0)
		require.InDelta(t, 4024, scores(t, s, all)[0], 1e-6)
	})
	t.Run("a short body bounds what is not known, where the engine reports tokens", func(t *testing.T) {
		tokens, requests := load(0, 0, 1), load(0, 0, 1)
		tokens.Sent = workers.SentWaiting | workers.SentWaitingTokens
		requests.Sent = workers.SentWaiting
		for _, tt := range []struct {
			load  workers.RankLoad
			bytes int64
			want  float64
		}{{tokens, 100, 100}, {tokens, 5000, 1024}, {tokens, -1, 1024}, {requests, 100, 1024}} {
			all := in(t, reported(tt.load))
			s := newBuiltInWait(nil)
			s.pick(&pipeline.Exchange{Client: sized{bytes: tt.bytes}}, workers.ListOf(all...), nil, 0, 0)
			require.InDelta(t, tt.want, scores(t, s, all)[0], 1e-6)
		}
	})
	t.Run("of a prompt that is held the rest counts", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 1)))
		s := newBuiltInWait(nil)
		s.pick(nil, workers.ListOf(all...), nil, 1000, 0.75)
		require.InDelta(t, 250, scores(t, s, all)[0], 1e-6)
		s.pick(nil, workers.ListOf(all...), nil, 0, 0.5)
		require.InDelta(t, 250+512, scores(t, s, all)[0], 1e-6)
		s.pick(nil, workers.ListOf(all...), nil, 1000, 1)
		require.InDelta(t, 250+512+1, scores(t, s, all)[0], 1e-6, "no request counts for nothing")
	})
	t.Run("the only candidate is credited too", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 100)), reported(load(500, 0, 100)))
		s := newBuiltInWait(nil)
		require.Equal(t, 0, chosen(s, all[:1], 0))
		require.Equal(t, 1, chosen(s, all, 0))
	})
	t.Run("a report of one worker does not touch the credit of another", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 100)), reported(load(0, 0, 100)))
		s := newBuiltInWait(nil)
		require.NotEqual(t, chosen(s, all, 700), chosen(s, all, 700))
		says(all[0], load(0, 0, 100))
		require.InDeltaSlice(t, []float64{0, 7}, scores(t, s, all), 1e-6)
	})
	t.Run("nor does the end of a request", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 100)))
		s := newBuiltInWait(nil)
		chosen(s, all, 700)
		all[0].Begin()
		all[0].End()
		require.InDelta(t, 7, scores(t, s, all)[0], 1e-6)
	})
	t.Run("a worker that is forgotten starts anew", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 100)))
		s := newBuiltInWait(nil)
		chosen(s, all, 700)
		s.forget(all[0])
		require.Zero(t, scores(t, s, all)[0])
	})
	t.Run("a failed poll leaves the credit, the next report resets it", func(t *testing.T) {
		all := in(t, reported(load(0, 0, 100)), reported(load(0, 0, 100)))
		s := newBuiltInWait(nil)
		chosen(s, all[:1], 700)
		was := all[0].Report()
		all[0].SetReport(nil)
		require.Zero(t, scores(t, s, all)[0], "without a report it stands behind the best")
		chosen(s, all[:1], 700)
		all[0].SetReport(was)
		require.InDelta(t, 14, scores(t, s, all)[0], 1e-6)
		says(all[0], load(0, 0, 100))
		require.Zero(t, scores(t, s, all)[0])
	})
}

// policies.md, section 7.2, made exact: a report does not know of what was sent after its question.
func TestAReportTakesBackWhatItCanKnowOf(t *testing.T) {
	now := time.Now()
	all := in(t, reported(load(0, 0, 100)), reported(load(0, 0, 100)))
	s := newBuiltInWait(func() time.Time { return now })
	send := func(w int, tokens int64) { require.Equal(t, 0, s.pick(nil, workers.ListOf(all[w]), nil, tokens, 0)) }
	send(0, 100)
	now = now.Add(time.Second)
	asked := now
	now = now.Add(time.Millisecond)
	send(0, 200)
	send(1, 1000)
	send(0, 300)
	all[0].SetReport(workers.NewReport(asked, now, "", []workers.RankLoad{load(50, 0, 100)}))
	require.InDeltaSlice(t, []float64{5.5, 10}, scores(t, s, all), 1e-9)
	all[0].SetReport(workers.NewReport(now, now, "", []workers.RankLoad{load(50, 0, 100)}))
	require.InDelta(t, 0.5, scores(t, s, all)[0], 1e-9)
}

// What was sent so long ago that the log has forgotten it is taken back: it is better to know too little than to add up without end.
func TestTheLogOfCreditsIsBounded(t *testing.T) {
	all := in(t, reported(load(0, 0, 1)), reported(load(0, 0, 1)))
	now := time.Now()
	s := newBuiltInWait(func() time.Time { return now })
	asked := now
	now = now.Add(time.Second)
	for range remembered + 100 {
		s.pick(nil, workers.ListOf(all[0]), nil, 1, 0)
	}
	require.InDelta(t, remembered+100, scores(t, s, all)[0], 0)
	all[0].SetReport(workers.NewReport(asked, now, "", []workers.RankLoad{load(0, 0, 1)}))
	require.InDelta(t, remembered, scores(t, s, all)[0], 0)
}

// policies.md, sections 3 and 7.4: exact ties go either way. With three equals over 150 trials, one that is never seen is a chance of
// 1 in 10^26.
func TestTiesAreBrokenAtRandom(t *testing.T) {
	fresh := func(t *testing.T, trials int, states ...state) map[int]int {
		all := in(t, states...)
		var places []int
		for range trials {
			places = append(places, chosen(newBuiltInWait(nil), all, 0))
		}
		return tally(places)
	}
	t.Run("between a worker with a report and one without", func(t *testing.T) {
		require.Len(t, fresh(t, 200, reported(load(4000, 0, 100)), dark(0)), 2)
	})
	t.Run("among two with a report and one without, each as often", func(t *testing.T) {
		one := reported(waiting(1, 0.125, 100))
		counts := fresh(t, 150, one, one, dark(0))
		for i := range 3 {
			require.InDelta(t, 50, counts[i], 40, "worker %d", i)
		}
		require.Less(t, counts[2], 100)
	})
	t.Run("among three fresh reporters", func(t *testing.T) {
		one := reported(load(0, 0.2, 100))
		require.Len(t, fresh(t, 150, one, one, one), 3)
	})
	t.Run("two picks of two equals are different", func(t *testing.T) {
		all := in(t, reported(load(0, 0.2, 100)), reported(load(0, 0.2, 100)))
		for range 20 {
			s := newBuiltInWait(nil)
			require.NotEqual(t, chosen(s, all, 0), chosen(s, all, 0))
		}
	})
	t.Run("evenly, among many", func(t *testing.T) {
		all := in(t, make([]state, 40)...)
		s := newBuiltInWait(nil)
		var places []int
		for range 40_000 {
			places = append(places, chosen(s, all, 0))
		}
		for i, n := range tally(places) {
			require.InDelta(t, 1000, n, 190, "worker %d", i) // six standard deviations
		}
		require.Len(t, tally(places), 40)
	})
}

// policies.md, section 7.4: only those that are compared play a part.
func TestNothingOutsideTheComparedMatters(t *testing.T) {
	all := in(t, dark(2), reported(load(1000, 0.2, 100)), reported(load(0, 0.2, 100000)))
	s := newBuiltInWait(nil)
	x := &pipeline.Exchange{Explain: &pipeline.Explanation{}}
	require.Equal(t, 1, s.pick(x, workers.ListOf(all...), []int{0, 1}, 0, 0))
	require.InDeltaSlice(t, []float64{30.5175, 10.0375}, rated(x.Explain, all)[:2], 1e-6)
	require.Len(t, x.Explain.Scores, 2)

	require.Equal(t, 0, s.pick(nil, workers.ListOf(all...), []int{0}, 0, 0))
	require.Equal(t, -1, s.pick(nil, workers.ListOf(all...), []int{}, 0, 0), "nobody is compared, which is not everybody")
}

// policies.md, section 25, 3: a burst spreads, because nobody sees the winner uncredited.
func TestABurstSpreadsOverEquals(t *testing.T) {
	one := reported(load(0, 0.2, 100))
	all := in(t, one, one, one, one)
	s := newBuiltInWait(nil)
	places := make(chan int, 100)
	for range cap(places) {
		go func() { places <- chosen(s, all, 0) }()
	}
	var got []int
	for range cap(places) {
		got = append(got, <-places)
	}
	require.Equal(t, map[int]int{0: 25, 1: 25, 2: 25, 3: 25}, tally(got))
}

// policies.md, section 8: values that reach a constructor directly.
func TestTuningThatMakesNoSenseFallsBack(t *testing.T) {
	for _, weight := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.InDelta(t, 0.15, newExpectedWait(weight, 1, 1, 0, nil).weight, 0, "weight %v", weight)
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.InDelta(t, 2000, newExpectedWait(0, rate, 1, 0, nil).throughput, 0, "throughput %v", rate)
	}
	require.EqualValues(t, 1, newExpectedWait(0, 1, 0, 0, nil).meanPrefill)
	require.Zero(t, newExpectedWait(0, 1, 0, 0, nil).weight, "0 is off")
}

// DESIGN, "Explaining": a dry run leaves no credit and no log line, and the parts add up.
func TestExpectedWaitExplainsItself(t *testing.T) {
	all := in(t, reported(load(1000, 0.2, 100)), reported(load(5000, 0.5, 100)), dark(3))
	s := newBuiltInWait(nil)
	chosen(s, all[:1], 200)
	var runs []*pipeline.Explanation
	for range 2 {
		x := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
		require.Equal(t, 0, s.pick(x, workers.ListOf(all...), nil, 0, 0))
		runs = append(runs, x.Explain)
	}
	require.Equal(t, runs[0], runs[1])
	require.Equal(t, []pipeline.Part{
		{Name: "queued_wait", Value: 10}, {Name: "in_flight_credit", Value: 2}, {Name: "kv_pressure", Value: s.pressure(0.2)},
	}, runs[0].Scores[0].Parts)
	require.Equal(t, []string{"best_reported", "in_flight_wait"}, names(runs[0].Scores[2].Parts))
	for _, score := range runs[0].Scores {
		sum := 0.0
		for _, p := range score.Parts {
			sum += p.Value
		}
		require.InDelta(t, score.Value, sum, 1e-9)
	}
}

func names(parts []pipeline.Part) (all []string) {
	for _, p := range parts {
		all = append(all, p.Name)
	}
	return all
}

// A slot that a removed worker has left is another worker's: the books do not pass on.
func TestASlotPassesOnWithoutItsBooks(t *testing.T) {
	registry, all := fleet(t, 1)
	says(all[0], load(0, 0, 100))
	s := newBuiltInWait(nil)
	chosen(s, all, 5000)
	require.True(t, registry.Remove(all[0])) // nobody tells the scorer
	next := worker(t, "http://127.0.0.1:99", nil)
	require.NoError(t, registry.Add(next))
	require.Equal(t, all[0].Slot(), next.Slot())
	says(next, load(0, 0, 100))
	require.Zero(t, scores(t, s, []*workers.Worker{next})[0])
	s.forget(all[0])
	chosen(s, []*workers.Worker{next}, 100)
	require.InDelta(t, 1, scores(t, s, []*workers.Worker{next})[0], 1e-9)
	s.forget(all[0])
	require.InDelta(t, 1, scores(t, s, []*workers.Worker{next})[0], 1e-9, "its former holder has no say")
}

// BenchmarkExpectedWait is a choice among workers that have all reported, unlike those of BenchmarkSelect.
func BenchmarkExpectedWait(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			registry, all := fleet(b, n)
			for i, w := range all {
				says(w, waiting(int64(i%7), 0.3, 100))
			}
			among, s, x := pool(registry), newBuiltInWait(nil), &pipeline.Exchange{}
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				s.pick(x, among, nil, 0, 0)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}
