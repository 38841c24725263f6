package policy

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// atWork is a policy in the place that it is made for: the default of a set that follows a registry, over workers of the kind that it
// divides. Its clock stands still.
type atWork struct {
	Policy
	metrics *telemetry.Metrics
	all     []*workers.Worker
	pool    workers.List
	warned  *records // from Warn on: no line is written for a choice
}

func newAtWork(t testing.TB, name string, n int) *atWork {
	t.Helper()
	a := &atWork{metrics: telemetry.NewMetrics(telemetry.Options{}), warned: &records{}}
	log := slog.New(slog.NewJSONHandler(a.warned, &slog.HandlerOptions{Level: slog.LevelWarn}))
	now := time.Unix(1e9, 0)
	s := BuiltIn(Shared{Clock: func() time.Time { return now }, Metrics: a.metrics.Policies, Log: log})
	if name == "bucket" {
		s.BalanceAbs = 1 << 40 // characters: a few requests are no imbalance
	}
	set, err := NewSet(name, s, nil, log)
	require.NoError(t, err)
	registry := workers.NewRegistry()
	t.Cleanup(registry.Listen(set))
	typ := workers.Regular
	if name == "bucket" {
		typ = workers.Prefill
	}
	for i := range n {
		spec := workers.NewSpec(fmt.Sprintf("http://w%d:8000", i+1))
		spec.WorkerType, spec.Labels = typ, map[string]string{"model_id": "m1"}
		w, err := workers.New(spec, workers.DefaultSettings())
		require.NoError(t, err)
		w.SetStatus(workers.Ready)
		require.NoError(t, registry.Add(w))
		a.all = append(a.all, w)
	}
	a.Policy, a.pool = set.For("m1"), registry.Pool("m1", typ, workers.HTTP)
	return a
}

// request is the k-th of many different ones: it has a routing key and a prompt, whose size is its own too.
func (a *atWork) request(k int) *pipeline.Exchange {
	x := keyed(fmt.Sprint("session-", k))
	x.Client, x.Pool = sized{x.Client, 0}, a.pool
	x.Prompt.Text = fmt.Sprint(k, strings.Repeat(" and so on", 10+7*k))
	return x
}

// arrived tells whether requests have come to the path that the policy is there for.
func (a *atWork) arrived(t *testing.T, name string) {
	t.Helper()
	main := map[string]string{
		"manual": "smg_manual_policy_branch_total{occupied_hit}", "consistent_hashing": "smg_consistent_hashing_policy_branch_total{routing_key_hit}",
		"prefix_hash": "smg_prefix_hash_policy_branch_total{ring_hit}", "cache_aware": "smg_cache_aware_policy_branch_total{tree_match}",
	}
	if series := main[name]; series != "" {
		require.Positive(t, a.counted(t)[series], a.counted(t))
	}
	if name == "bucket" {
		require.Empty(t, a.warned.at(t, slog.LevelWarn), "it has ranges")
		x := a.request(3)
		x.DryRun, x.Explain = true, &pipeline.Explanation{}
		chosen := a.pool.At(a.Select(x, a.pool))
		require.Len(t, x.Explain.Scores, 1, "the owner of the range, and nobody else, is rated")
		require.Equal(t, chosen, x.Explain.Scores[0].Worker)
	}
}

// counted are the counters and gauges of policies that are not 0.
func (a *atWork) counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := a.metrics.Registry().Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if n != 0 && strings.HasPrefix(f.GetName(), "smg_") && !strings.HasPrefix(f.GetName(), "smg_runtime_") {
				all[f.GetName()+"{"+strings.Join(labels, " ")+"}"] = n
			}
		}
	}
	return all
}

// worksWithoutAllocating is allocatesNothing for a request that comes again: its key is known, and its prompt.
func worksWithoutAllocating(t *testing.T, name string) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	a := newAtWork(t, name, 30)
	for k := range 20 {
		a.Select(a.request(k), a.pool)
	}
	for k := range 20 {
		x := a.request(k)
		a.Select(x, a.pool)
		require.Zero(t, testing.AllocsPerRun(50, func() { a.Select(x, a.pool) }), "request %d", k)
	}
	a.arrived(t, name)
}

// worksConcurrently is choosesConcurrently for requests with keys and prompts; those of a key go to one worker where the policy is for that.
func worksConcurrently(t *testing.T, name string) {
	const keys = 40
	a := newAtWork(t, name, 5)
	affine := name == "manual" || name == "consistent_hashing" || name == "prefix_hash"
	var mu sync.Mutex
	chosen := map[int]*workers.Worker{}
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for n := range 200 {
				k := (n*7 + client) % keys
				x := a.request(k)
				if x.DryRun = n%7 == 0; n%5 == 0 {
					x.Explain = &pipeline.Explanation{}
				}
				i := a.Select(x, a.pool)
				if i < 0 || i >= a.pool.Len() {
					t.Errorf("chose %d of %d", i, a.pool.Len())
					return
				}
				if x.DryRun {
					continue
				}
				mu.Lock()
				first := chosen[k]
				if first == nil {
					first = a.pool.At(i)
					chosen[k] = first
				}
				mu.Unlock()
				if affine && a.pool.At(i) != first {
					t.Errorf("key %d went to two workers", k)
				}
				a.end(x)
			}
		})
	}
	clients.Wait()
	a.arrived(t, name)
}

// dryRunsOfWorkBookNothing: whatever is asked in dry runs about requests known and unknown, nothing is counted, and a known request goes
// where it would have gone. That may be a matter of lot where nothing but load decides.
func dryRunsOfWorkBookNothing(t *testing.T, name string) {
	a := newAtWork(t, name, 6)
	byLot := map[string]bool{"random": true, "power_of_two": true, "least_load": true, "least_work": true}[name]
	for k := range 8 {
		for range 2 { // the first may be by lot for all
			x := a.request(k)
			a.Select(x, a.pool)
			a.end(x)
		}
	}
	a.arrived(t, name)
	for k := range 8 {
		before := a.counted(t)
		x := a.request(k)
		x.DryRun, x.Explain = true, &pipeline.Explanation{}
		foretold := a.Select(x, a.pool)
		for other := range 30 {
			x := a.request(other)
			x.DryRun = true
			a.Select(x, a.pool)
			a.Select(x, workers.ListOf(a.all[other%5:]...))
		}
		require.Equal(t, before, a.counted(t), "nothing is counted")
		got := a.Select(a.request(k), a.pool)
		if !byLot {
			require.Equal(t, foretold, got, "request %d", k)
		}
	}
}

// end ends the attempt of a request as a good answer does.
func (a *atWork) end(x *pipeline.Exchange) {
	if booked, ok := a.Policy.(Booked); ok {
		leg := x.Legs.Add(a.all[0], workers.Regular)
		leg.Status = 200
		booked.Ended(x)
	}
}
