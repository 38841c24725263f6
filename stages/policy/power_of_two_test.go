package policy

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

func newPowerOfTwo() *powerOfTwo {
	return PowerOfTwo(BuiltIn(Shared{}), slog.New(slog.DiscardHandler)).(*powerOfTwo)
}

// policies.md, section 9, without load reports: in flight 10, 5 and 0. Of 300 samples of two, a hundred are each pair.
func TestPowerOfTwoChoosesTheOneWithLessInFlight(t *testing.T) {
	all := in(t, dark(10), dark(5), dark(0))
	counts := tally(picks(t, newPowerOfTwo(), 300, workers.ListOf(all...), all))
	require.Zero(t, counts[0], "it is the busier one of every pair")
	require.InDelta(t, 100, counts[1], 50)
	require.Greater(t, counts[2], counts[1])
}

// policies.md, section 9: the two are different, and a tie is broken at random.
func TestPowerOfTwoSamplesTwoDifferentWorkers(t *testing.T) {
	_, all := fleet(t, 2)
	p, list := newPowerOfTwo(), workers.ListOf(all...)
	both := tally(picks(t, p, 200, list, all))
	require.Len(t, both, 2, "a tie goes either way")

	all[0].Begin()
	require.Equal(t, map[int]int{1: 200}, tally(picks(t, p, 200, list, all)), "of two, both are looked at")
	all[0].End()
	require.Len(t, tally(picks(t, p, 200, list, all)), 2, "the count is read at every choice")
}

// policies.md, section 9: everybody is sampled.
func TestPowerOfTwoReachesEveryWorker(t *testing.T) {
	registry, all := fleet(t, 8)
	require.Len(t, tally(picks(t, newPowerOfTwo(), 1000, pool(registry), all)), 8)
}

// policies.md, section 9: by expected wait, until the credit of the better one has passed the other.
func TestPowerOfTwoComparesExpectedWaits(t *testing.T) {
	all := in(t, reported(load(8000, 0.2, 100)), reported(load(1000, 0.2, 100)))
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 0}, picks(t, newPowerOfTwo(), 8, workers.ListOf(all...), all))
}

// policies.md, section 9: the only candidate is credited as well (7.2).
func TestPowerOfTwoCreditsTheOnlyCandidate(t *testing.T) {
	all := in(t, reported(load(0, 0.2, 100)), reported(load(1000, 0.2, 100)))
	p := newPowerOfTwo()
	require.Equal(t, []int{0}, picks(t, p, 1, workers.ListOf(all[0]), all))
	require.Equal(t, []int{1}, picks(t, p, 1, workers.ListOf(all...), all))
}

// policies.md, section 9: a forgotten worker is dark, and with nothing in flight as good as the other.
func TestPowerOfTwoTiesAForgottenWorkerWithTheOther(t *testing.T) {
	all := in(t, reported(load(500, 0.2, 100)), reported(load(1000, 0.2, 100)))
	p := newPowerOfTwo()
	picks(t, p, 5, workers.ListOf(all...), all)
	all[0].SetReport(nil)
	p.Forget(all[0])
	require.Len(t, tally(picks(t, p, 50, workers.ListOf(all...), all)), 2)
}

// policies.md, sections 7.3 and 9: the pair is compared with itself alone: a third one's report changes nothing.
func TestPowerOfTwoLooksAtNobodyBeyondThePair(t *testing.T) {
	all := in(t, dark(2), reported(load(1000, 0.2, 100)), reported(load(0, 0.2, 100000)))
	p := newPowerOfTwo()
	for range 100 {
		x := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
		p.Select(x, workers.ListOf(all...))
		require.Len(t, x.Explain.Scores, 2)
		values := rated(x.Explain, all)
		if x.Explain.Scores[0].Worker != all[2] && x.Explain.Scores[1].Worker != all[2] {
			require.InDeltaSlice(t, []float64{30.5175, 10.0375}, values[:2], 1e-6)
		}
	}
}

// policies.md, section 8: tuning and cap are least_load's alone.
func TestPowerOfTwoHasTheBuiltInTuning(t *testing.T) {
	s := BuiltIn(Shared{})
	s.KVPressureWeight, s.DefaultThroughput, s.MeanPrefillTokens, s.MaxWaiting = 100, 1, 1, 1
	p := PowerOfTwo(s, slog.New(slog.DiscardHandler))
	all := in(t, reported(waiting(2, 0.5, 0)))
	x := &pipeline.Exchange{Explain: &pipeline.Explanation{}}
	require.Equal(t, 0, p.Select(x, workers.ListOf(all...)))
	require.InDelta(t, 2048.0/2000+0.15, x.Explain.Scores[0].Value, 1e-9)
}
