package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 2; DECISIONS 1: a worker that was tried is left out while another is left.
func TestUntriedPrefersWorkersThatWereNotTried(t *testing.T) {
	r := newRig(t, 3, nil)
	among := func(tried ...int) (kept []int) {
		x := &pipeline.Exchange{Client: chat(), DryRun: true}
		for _, i := range tried {
			x.Try(r.workers[i])
		}
		chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Untried(), last(200, func(x *pipeline.Exchange) {
			for i, w := range r.workers {
				if x.Candidates.Contains(w) {
					kept = append(kept, i)
				}
			}
		}))
		require.NoError(t, chain.Run(x))
		return kept
	}
	require.Equal(t, []int{0, 1, 2}, among(), "a first attempt")
	require.Equal(t, []int{0, 2}, among(1))
	require.Equal(t, []int{2}, among(1, 0))
	require.Equal(t, []int{0, 1, 2}, among(2, 1, 0), "nobody would be left")

	put(t, r.workers[2], "unhealthy")
	x := &pipeline.Exchange{Client: chat()}
	x.Try(r.workers[0])
	x.Try(r.workers[1])
	chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Available(), Untried(), last(200, func(x *pipeline.Exchange) {
		require.Equal(t, []*workers.Worker{r.workers[0], r.workers[1]}, x.Candidates.Members(), "the third may not be chosen anyway")
	}))
	require.NoError(t, chain.Run(x))
}
