package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// least-work.md, section 2, for the scorer too: a look at a list of a moment ago, on which a removed worker is, does not touch the credit
// of its slot's new owner.
func TestALateLookLeavesTheCreditOfOthers(t *testing.T) {
	for name, look := range map[string]func(s *expectedWait, gone *workers.Worker){
		"a score": func(s *expectedWait, gone *workers.Worker) {
			s.pick(&pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}, workers.ListOf(gone), nil, 100, 0)
		},
		"a choice": func(s *expectedWait, gone *workers.Worker) { s.pick(nil, workers.ListOf(gone), nil, 100, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			registry, all := fleet(t, 1)
			gone := all[0]
			s := newBuiltInWait(nil)
			require.True(t, registry.Remove(gone))
			s.forget(gone)
			next := worker(t, "http://127.0.0.1:99", nil)
			require.NoError(t, registry.Add(next))
			require.Equal(t, gone.Slot(), next.Slot())
			says(next, load(0, 0, 100))
			chosen(s, []*workers.Worker{next}, 700)
			for _, report := range []*workers.Report{nil, next.Report()} {
				gone.SetReport(report)
				look(s, gone)
				require.InDelta(t, 7, scores(t, s, []*workers.Worker{next})[0], 1e-9)
			}
		})
	}
}

// Removals are remembered for as long as a request may look at its list, and not for good.
func TestRemovalsAreForgotten(t *testing.T) {
	_, all := fleet(t, 3)
	var d departed
	now := time.Now()
	require.False(t, d.has(all[0]))
	d.add(all[0], now)
	d.add(all[1], now.Add(mourning-time.Second))
	require.True(t, d.has(all[0]))
	d.add(all[2], now.Add(mourning))
	require.True(t, d.has(all[1]))
	d.add(all[2], now.Add(2*mourning))
	require.False(t, d.has(all[0]))
	require.False(t, d.has(all[1]))
	require.True(t, d.has(all[2]))
}
