package policy

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// workers.md, sections 10 and 16: a PATCH changes what is said of a worker, not its engine, whose cache still has the prefixes.
func TestAChangedWorkerKeepsItsPrefixes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sticky bool
		label  string // of the model's own policy; "" is the default's
	}{{"the default policy", false, ""}, {"one of the model's own", false, "cache_aware"}, {"behind sessions", true, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			settings := BuiltIn(Shared{})
			settings.Sticky = tt.sticky
			set, err := NewSet("cache_aware", settings, nil, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			r := workers.NewRegistry()
			defer r.Listen(set)()
			for port := range 2 {
				w := labelled(t, 1+port, "m", tt.label)
				w.SetStatus(workers.Ready)
				require.NoError(t, r.Add(w))
			}
			choose := func() *workers.Worker {
				pool := r.Pool("m", workers.Regular, workers.HTTP)
				x := &pipeline.Exchange{Model: "m", Prompt: pipeline.RoutingPrompt{Text: strings.Repeat("the same words ", 100)}}
				return pool.At(set.For("m").Select(x, pool))
			}
			w := choose()
			w.Begin() // the other one has less to do, so whoever knows of no prefix chooses that
			require.Same(t, w, choose())

			e := workers.NewEnroller(r, workers.DefaultSettings(), workers.DefaultStartup(), nil)
			defer e.Close()
			require.NoError(t, e.Update(w.ID(), workers.Patch{Priority: new(uint32(7))}))
			require.Eventually(t, func() bool { return r.ByID(w.ID()).Revision() == 1 }, 20*time.Second, time.Millisecond)
			now := choose()
			require.Equal(t, w.ID(), now.ID())
			require.NotSame(t, w, now)

			require.True(t, r.Remove(now))
			require.NotEqual(t, w.ID(), choose().ID())
		})
	}
}

// What was known of the model that a worker served is not known of the one that it serves now.
func TestAWorkerOfAnotherModelInheritsNothing(t *testing.T) {
	set, err := NewSet("cache_aware", BuiltIn(Shared{}), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	was, now := labelled(t, 1, "m", ""), labelled(t, 1, "n", "")
	set.WorkerAdded(was)
	index := set.standard.(*cacheAware).index
	prompt := pipeline.RoutingPrompt{Text: "words"}
	v := index.look("m", &prompt)
	index.record(v, was)
	v.close()
	set.WorkerReplaced(was, now)
	v = index.look("m", &prompt)
	defer v.close()
	require.Zero(t, v.units(now))
	require.Zero(t, v.units(was))
}

// least-work.md, section 2, load-signals.md, section 2, and DECISIONS, 59: the requests that a worker has stay what it has when something
// else is said of it, and end on its next revision; only a removed worker's books vanish.
func TestAChangedWorkerKeepsItsWork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sticky bool
		label  string
	}{{"the default policy", false, ""}, {"one of the model's own", false, "least_work"}, {"behind sessions", true, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			settings := BuiltIn(Shared{Clock: func() time.Time { return start }})
			settings.Sticky = tt.sticky
			set, err := NewSet("least_work", settings, nil, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			r := workers.NewRegistry()
			defer r.Listen(set)()
			was := labelled(t, 1, "m", tt.label)
			was.SetStatus(workers.Ready)
			require.NoError(t, r.Add(was))
			w := &works{leastWork: inside(set.For("m")).(*leastWork)}
			streams, drains := streamed(ids(1, 1000)...), unstreamed(ids(2, 12_000)...)
			w.send(t, streams, was)
			w.send(t, drains, was)

			e := workers.NewEnroller(r, workers.DefaultSettings(), workers.DefaultStartup(), nil)
			defer e.Close()
			require.NoError(t, e.Update(was.ID(), workers.Patch{Priority: new(uint32(7)), Labels: map[string]string{"max_num_seqs": "2"}}))
			require.Eventually(t, func() bool { return r.ByID(was.ID()).Revision() == 1 }, 20*time.Second, time.Millisecond)
			now := r.ByID(was.ID())
			require.EqualValues(t, 2, w.inFlight(now))
			require.InDelta(t, 13_000, w.queued(now), 0)
			scores, over := w.weigh(streamed(ids(1, 1000)...), "over_limit", now)
			require.Equal(t, []float64{overLimitCost}, over, "it says now how many it runs")
			require.Equal(t, []float64{13_000 + 2*inFlightCost + overLimitCost + 2*(1000-992)}, scores, "it holds the prompt")

			late := streamed(ids(3, 500)...) // chosen from a list of a moment ago
			w.send(t, late, was)
			require.EqualValues(t, 3, w.inFlight(now), "the engine has it, whichever revision was looked at")
			w.end(late, 200)
			firstByte(streams)
			require.InDelta(t, 12_000, w.queued(now), 0)
			w.end(streams, 200)
			w.end(drains, 500)
			require.Zero(t, w.queued(now))
			require.Zero(t, w.inFlight(now))
			_, prompt := w.weigh(streamed(ids(2, 1600)...), "prompt", now)
			require.Equal(t, []float64{2 * 1600}, prompt, "a failure is taken back from the next revision")
			audit(t, w.index)

			require.True(t, r.Remove(now))
			require.Zero(t, w.index.memory.used.Load(), "what a removed worker held goes")
		})
	}
}

// The requests that an engine has do not depend on the model that is said to be served there; the prompts that it holds do.
func TestAWorkerOfAnotherModelKeepsItsRequestsOnly(t *testing.T) {
	set, err := NewSet("least_work", BuiltIn(Shared{}), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	was, now := labelled(t, 1, "m", ""), labelled(t, 1, "n", "")
	set.WorkerAdded(was)
	w := &works{leastWork: set.Default().(*leastWork)}
	x := streamed(ids(1, 1000)...)
	w.send(t, x, was)
	set.WorkerReplaced(was, now)
	require.Zero(t, w.index.memory.used.Load())
	w.end(x, 200)
	require.Zero(t, w.inFlight(now))
}
