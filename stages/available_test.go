package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 1: "worker statuses Pending, Ready, NotReady, Failed, Draining -> selectable: no, yes, no, no, no".
func TestAvailableKeepsReadyWorkersOnly(t *testing.T) {
	var all []*workers.Worker
	for i, state := range []string{"pending", "ready", "unhealthy", "failed", "draining", "open", "overloaded"} {
		w := newWorker(t, "http://127.0.0.1:"+string(rune('1'+i)), "m1", strictly(false))
		put(t, w, state)
		all = append(all, w)
	}
	registry := workers.NewRegistry(all...)
	x := &pipeline.Exchange{Client: chat(), Explain: &pipeline.Explanation{}}
	require.NoError(t, assembled(t, given(pipeline.Model), Candidates(registry), Available(), last(200, nil)).Run(x))
	require.Equal(t, []*workers.Worker{all[1], all[5], all[6]}, x.Candidates.Members(), "breaker and overload are for other stages")
	require.Equal(t, registry.Len(), x.Pool.Len(), "the pool stays as it is")
	var left []string
	for _, l := range x.Explain.LeftOut {
		require.Equal(t, "available", l.Stage)
		left = append(left, l.Worker.URL()[len("http://127.0.0.1:"):]+" "+l.Reason)
	}
	require.Equal(t, []string{"1 pending", "3 not_ready", "4 failed", "5 draining"}, left)
}

// DECISIONS 51: a cordoned worker is no candidate, from the next attempt on.
func TestAvailableLeavesACordonedWorkerOut(t *testing.T) {
	r := newRig(t, 2, nil)
	require.True(t, r.registry.Cordon(r.workers[0], true))
	x := &pipeline.Exchange{Client: chat(), Explain: &pipeline.Explanation{}}
	require.NoError(t, assembled(t, given(pipeline.Model), Candidates(r.registry), Available(), last(200, nil)).Run(x))
	require.Equal(t, []*workers.Worker{r.workers[1]}, x.Candidates.Members())
	require.Equal(t, []pipeline.LeftOut{{Worker: r.workers[0], Stage: "available", Reason: "cordoned: discovery does not want it any more"}}, x.Explain.LeftOut)
	for range 4 {
		require.Equal(t, r.workers[1].URL(), r.ask(chat()).head.Get("X-Smg-Routed-Worker-Id"))
	}
	require.True(t, r.registry.Cordon(r.workers[1], true))
	c := r.ask(chat())
	require.Equal(t, 503, c.status)
	require.Contains(t, c.got.String(), "All 2 workers are unavailable (no longer wanted by discovery: 2)")
	require.True(t, r.registry.Cordon(r.workers[0], false))
	require.Equal(t, 200, r.ask(chat()).status, "it is let go")
}

// DESIGN, "Lists": a healthy fleet costs nothing to filter. The list that comes is the list that goes.
func TestFiltersPassAHealthyFleetOn(t *testing.T) {
	r := newRig(t, 2, nil)
	x := &pipeline.Exchange{Client: chat()}
	chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Available(), Breaker(), Overload(workers.NewLoadMonitor(r.registry, workers.LoadSettings{}, nil), nil, false), Untried(), last(200, nil))
	require.NoError(t, chain.Run(x))
	require.Equal(t, x.Pool, x.Candidates)
	if raceEnabled {
		return // the race detector allocates by itself
	}
	through := func() {
		x := pipeline.Exchange{Client: silentClient, Explain: nil}
		_ = chain.Run(&x)
	}
	through()
	require.LessOrEqual(t, testing.AllocsPerRun(100, through), 1.0, "the exchange of this test alone")
}

// silentClient is a client that notes nothing, so that nothing is allocated for it.
var silentClient = deaf{chat()}

type deaf struct{ *caller }

func (deaf) WriteHead(int, int64, []pipeline.Field) error { return nil }
