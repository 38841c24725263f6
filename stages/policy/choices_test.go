package policy

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 4. The bounds are six standard deviations wide.
func TestRandomChoosesEveryoneEquallyOften(t *testing.T) {
	registry, all := fleet(t, 3)
	for w, n := range tally(picks(t, Random(), 3000, pool(registry), all)) {
		require.InDelta(t, 1000, n, 155, "worker %d", w)
	}
	all[0].SetStatus(workers.NotReady)
	all[2].SetStatus(workers.Failed)
	require.Equal(t, map[int]int{1: 50}, tally(picks(t, Random(), 50, available(registry), all)))
}

// policies.md, section 6
func TestPassthroughChoosesTheFirstCandidate(t *testing.T) {
	registry, all := fleet(t, 2)
	_, log := newRecords()
	p := Passthrough(log)
	require.Equal(t, map[int]int{0: 10}, tally(picks(t, p, 10, available(registry), all)))
	all[0].SetStatus(workers.NotReady)
	require.Equal(t, map[int]int{1: 10}, tally(picks(t, p, 10, available(registry), all)))
	all[1].SetStatus(workers.NotReady)
	require.Equal(t, -1, p.Select(&pipeline.Exchange{}, available(registry)))
}

// policies.md, section 6: the warning is latched for each instance.
func TestPassthroughWarnsOnceThatItUsesOneWorkerOnly(t *testing.T) {
	_, all := fleet(t, 3)
	said, log := newRecords()
	p := Passthrough(log)
	picks(t, p, 5, workers.ListOf(all[0]), all)
	require.Empty(t, said.at(t, slog.LevelWarn), "one worker is what it is for")

	picks(t, p, 10, workers.ListOf(all[:2]...), all)
	picks(t, p, 10, workers.ListOf(all...), all)
	warnings := said.at(t, slog.LevelWarn)
	require.Len(t, warnings, 1)
	require.EqualValues(t, 2, warnings[0]["worker_count"])

	picks(t, Passthrough(log), 10, workers.ListOf(all...), all)
	require.Len(t, said.at(t, slog.LevelWarn), 2, "another instance says it again")
}

// policies.md, section 9, without load reports: in flight 10, 5 and 0. Of 300 samples of two, a hundred are each pair.
func TestPowerOfTwoChoosesTheOneWithLessInFlight(t *testing.T) {
	_, all := fleet(t, 3)
	for range 10 {
		all[0].Begin()
	}
	for range 5 {
		all[1].Begin()
	}
	counts := tally(picks(t, PowerOfTwo(), 300, workers.ListOf(all...), all))
	require.Zero(t, counts[0], "it is the busier one of every pair")
	require.InDelta(t, 100, counts[1], 50)
	require.Greater(t, counts[2], counts[1])
}

// policies.md, section 9: the two are different, and a tie is broken at random.
func TestPowerOfTwoSamplesTwoDifferentWorkers(t *testing.T) {
	_, all := fleet(t, 2)
	list := workers.ListOf(all...)
	both := tally(picks(t, PowerOfTwo(), 200, list, all))
	require.Len(t, both, 2, "a tie goes either way")

	all[0].Begin()
	require.Equal(t, map[int]int{1: 200}, tally(picks(t, PowerOfTwo(), 200, list, all)), "of two, both are looked at")
	all[0].End()
	require.Len(t, tally(picks(t, PowerOfTwo(), 200, list, all)), 2, "the count is read at every choice")
}

// policies.md, section 9: everybody is sampled.
func TestPowerOfTwoReachesEveryWorker(t *testing.T) {
	registry, all := fleet(t, 8)
	require.Len(t, tally(picks(t, PowerOfTwo(), 1000, pool(registry), all)), 8)
}
