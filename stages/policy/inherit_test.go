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
