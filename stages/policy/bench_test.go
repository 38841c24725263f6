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
				among, p := pool(registry), following(b, name, registry)
				x := &pipeline.Exchange{Key: pipeline.RoutingKey{Value: "user-123", Source: pipeline.HeaderKey}}
				took := make([]time.Duration, 1<<18) // the last so many
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
			})
		}
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
