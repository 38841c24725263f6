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
