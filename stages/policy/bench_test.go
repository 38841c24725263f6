package policy

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// BenchmarkSelect is one choice of each policy among a healthy fleet. A mean hides the choices that had to wait or to search, so
// it reports percentiles; the time that it takes to read the clock is measured and taken off. ns/op has it in.
func BenchmarkSelect(b *testing.B) {
	clock := clockCost()
	for _, name := range Names() {
		for _, n := range []int{3, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				registry, _ := fleet(b, n)
				choose(b, following(b, name, registry), pool(registry), clock)
			})
		}
	}
}

// BenchmarkSelectReported is one choice of the policies that look at every worker, among 10,000 that have different loads and report them.
func BenchmarkSelectReported(b *testing.B) {
	clock := clockCost()
	for _, name := range []string{"least_load", "cache_aware", "least_work"} {
		b.Run(name+"/10000", func(b *testing.B) {
			registry, all := fleet(b, 10_000)
			now := time.Now()
			for i, w := range all {
				w.SetReport(workers.NewReport(now, now, "", []workers.RankLoad{{Waiting: int64(i % 7), Running: 3, Throughput: 900}}))
			}
			choose(b, following(b, name, registry), pool(registry), clock)
		})
	}
}

// choose chooses again and again, and reports how long one choice takes.
func choose(b *testing.B, p Policy, among workers.List, clock time.Duration) {
	b.Helper()
	x := &pipeline.Exchange{Key: pipeline.RoutingKey{Value: "user-123", Source: pipeline.HeaderKey}}
	took := make([]time.Duration, 1<<18) // the last so many
	p.Select(x, among)                   // the first opens the books
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		start := time.Now()
		p.Select(x, among)
		took[k%len(took)] = time.Since(start)
		k++
	}
	took = took[:min(k, len(took))]
	slices.Sort(took)
	for _, q := range []struct {
		unit    string
		percent int
	}{{"p50-ns", 50}, {"p99-ns", 99}} {
		b.ReportMetric(float64(max(0, took[len(took)*q.percent/100]-clock)), q.unit)
	}
}

// following is a policy of a set that knows the registry's workers.
func following(b *testing.B, name string, registry *workers.Registry) Policy {
	b.Helper()
	silent := slog.New(slog.DiscardHandler)
	set, err := NewSet("random", BuiltIn(Shared{}), nil, silent)
	require.NoError(b, err)
	b.Cleanup(registry.Follow(set))
	p, err := New(name, set.settings, silent)
	require.NoError(b, err)
	return p
}

// clockCost is what a time between two readings of the clock is, if nothing is between them.
func clockCost() time.Duration {
	took := make([]time.Duration, 10_001)
	for i := range took {
		start := time.Now()
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
