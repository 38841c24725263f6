package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// Case C27 of the cases: a prompt that many send at once reaches every worker. Holders that share a load among them are not hot, so the
// spill gate of cache-aware.md, section 3, alone never reaches the last ones of a fleet. The thresholds are 4 and 1.5, as there.
func TestAPromptOfAllReachesTheLastWorkers(t *testing.T) {
	p := textPrompt("a prompt that everybody sends")
	tests := []struct {
		name     string
		inFlight []int
		holders  []int
		chosen   []int // one of these
		how      branch
	}{
		{"three carry their share each, and the fourth is far below the mean", []int{9, 9, 6, 0}, []int{0, 1, 2}, []int{3}, spill},
		{"one of the three is below the mean", []int{9, 9, 5, 0}, []int{0, 1, 2}, []int{0, 1, 2}, treeMatch},
		{"the fourth is below the mean by the number alone", []int{40, 40, 40, 24}, []int{0, 1, 2}, []int{0, 1, 2}, treeMatch},
		{"the fourth is below it by the factor alone", []int{5, 5, 5, 0}, []int{0, 1, 2}, []int{0, 1, 2}, treeMatch},
		{"another one that has nothing of it is not far below", []int{9, 9, 6, 0}, []int{0, 1}, []int{0, 1}, treeMatch},
		{"two are far below", []int{12, 12, 12, 12, 12, 0, 0}, []int{0, 1, 2, 3, 4}, []int{5, 6}, spill},
		{"everybody has it", []int{9, 9, 6, 0}, []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, treeMatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCached(t, len(tt.inFlight), func(s *Settings) { s.BalanceAbs, s.BalanceRel = 4, 1.5 })
			c.teach(p, tt.holders...)
			c.busy(tt.inFlight...)
			require.Contains(t, tt.chosen, c.choose(p))
			require.Equal(t, map[branch]int{tt.how: 1}, c.branches())
		})
	}
}

// Case C27: a burst that shares its beginning, none answered yet.
func TestABurstOnOnePromptIsServedByAll(t *testing.T) {
	c := newCached(t, 4, func(s *Settings) { s.BalanceAbs, s.BalanceRel = 4, 1.5 })
	p := textPrompt("a prompt that everybody sends")
	places := make([]int, 64)
	for i := range places {
		places[i] = c.choose(p)
		c.all[places[i]].Begin()
	}
	for i := range 4 {
		require.InDelta(t, 16, tally(places)[i], 9, "worker %d", i)
	}
}

// DESIGN, "Explaining": holders that are passed over for a worker that has nothing of the prompt are told why.
func TestCacheAwareExplainsWhyItWidens(t *testing.T) {
	c := newCached(t, 3, func(s *Settings) { s.BalanceAbs, s.BalanceRel = 4, 1.5 })
	p := textPrompt("a prompt that everybody sends")
	c.teach(p, 0, 1)
	c.busy(8, 8, 0)
	x := &pipeline.Exchange{Model: "m", Prompt: p, DryRun: true, Explain: &pipeline.Explanation{}}
	require.Equal(t, 2, c.Select(x, c.list))
	require.Len(t, x.Explain.LeftOut, 2)
	for i, left := range x.Explain.LeftOut {
		require.Same(t, c.all[i], left.Worker)
		require.Equal(t, "it has much more in flight than all that have too little of the prompt", left.Reason)
	}
}
