package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// judged is the one bar of a measure for rows of a workload at 8 engines, and whether there is one. Rows that a measure does not look at
// are as they should be.
func judged(t *testing.T, of, which int, rows []Row, found trials) Bar {
	t.Helper()
	all := newSheet(10 * time.Second)
	all.group(rows, found)
	bars := all[of].bars()
	require.Greater(t, len(bars), which)
	return bars[which]
}

// least-work.md, section 5: each line of the table, at its edge.
func TestABarHoldsUpToItsBound(t *testing.T) {
	row := func(policy string, load float64, change func(*Row)) Row {
		r := Row{Workload: "hot", Policy: policy, Engines: 8, Seed: 1, Load: load, CachedShare: 0.5, TTFTP99: 1, Imbalance: 1, Capacity: 10, VsOracle: 1}
		change(&r)
		return r
	}
	same := func(*Row) {}
	tests := []struct {
		name        string
		of, which   int
		edge, worse float64 // the value in question
		rows        func(v float64) []Row
		trials      func(v float64) trials
	}{
		{"capacity against the pooled oracle is at least 0.90", byOracle, 0, 0.90, 0.89, func(v float64) []Row {
			return []Row{row(knee, 1, func(r *Row) { r.VsOracle = v })}
		}, nil},
		{"its geometric mean is at least 0.95", byOracle, 1, 0.96, 0.94, func(v float64) []Row {
			return []Row{row(knee, 1, func(r *Row) { r.VsOracle = v })}
		}, nil},
		{"capacity against cache_aware is at least 1.05", byCacheAware, 0, 10.5, 10.4, func(v float64) []Row {
			return []Row{row(knee, 1, func(r *Row) { r.Capacity = v }), row(WholeCacheAware, 1, same)}
		}, nil},
		{"with fresh reports at least 1", byFreshCacheAware, 0, 10, 10.1, func(float64) []Row {
			return []Row{row(knee, 1, same)}
		}, func(v float64) trials { return trials{fresh: v} }},
		{"the cached share is at least 0.95 of the oracle's", cachedOfOthers, 0, 0.475, 0.47, func(v float64) []Row {
			return []Row{row(Oracle, 0.7, same), row(knee, 0.7, func(r *Row) { r.CachedShare = v })}
		}, nil},
		{"0.85 for conv", cachedOfConv, 0, 0.425, 0.42, func(v float64) []Row {
			return []Row{
				row(Oracle, 0.3, func(r *Row) { r.Workload = "conv" }),
				row(knee, 0.3, func(r *Row) { r.Workload, r.CachedShare = "conv", v }),
			}
		}, nil},
		{"p99 is at most 1.10 of the best other's at 70 % load", tail, 0, 1.1, 1.11, func(v float64) []Row {
			return []Row{row(Oracle, 0.7, func(r *Row) { r.TTFTP99 = 0.1 }), row("random", 0.7, func(r *Row) { r.TTFTP99 = 3 }), row("manual", 0.7, same), row(knee, 0.7, func(r *Row) { r.TTFTP99 = v })}
		}, nil},
		{"at most 1.05 at the knee", tailAtKnee, 0, 1.05, 1.06, func(v float64) []Row {
			return []Row{row("manual", 1, same), row(knee, 1, func(r *Row) { r.TTFTP99 = v })}
		}, nil},
		{"the imbalance is at most 1.15 of 8 engines", skewOfFew, 0, 1.15, 1.16, func(v float64) []Row {
			return []Row{row(knee, 0.5, func(r *Row) { r.Imbalance = 3 }), row(knee, 0.9, func(r *Row) { r.Imbalance = v })}
		}, nil},
		{"at most 1.40 of more", skewOfMany, 0, 1.4, 1.41, func(v float64) []Row {
			return []Row{row(knee, 0.7, func(r *Row) { r.Engines, r.Imbalance = 32, v })}
		}, nil},
		{"with a slow engine at least 0.90 of its own", oneSlow, 0, 9, 8.9, func(float64) []Row {
			return []Row{row(knee, 1, same)}
		}, func(v float64) trials { return trials{slow: v} }},
		{"with wrong tokens at least 0.95", wrongTokens, 0, 9.5, 9.4, func(float64) []Row {
			return []Row{row(knee, 1, same)}
		}, func(v float64) trials { return trials{wrong: v} }},
		{"0.85 for bursts", wrongTokensOfBursts, 0, 8.5, 8.4, func(float64) []Row {
			return []Row{row(knee, 1, func(r *Row) { r.Workload = "bursts" })}
		}, func(v float64) trials { return trials{wrong: v} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for v, holds := range map[float64]bool{tt.edge: true, tt.worse: false} {
				found := trials{}
				if tt.trials != nil {
					found = tt.trials(v)
				}
				require.Equal(t, holds, judged(t, tt.of, tt.which, tt.rows(v), found).Holds(), "%g", v)
			}
		})
	}
}

// The worst case is the one that is named, and the mean is the geometric one.
func TestABarNamesTheWorstCase(t *testing.T) {
	all := newSheet(time.Second)
	for seed, v := range []float64{0.98, 0.92, 1.0} {
		all.group([]Row{{Workload: "hot", Policy: knee, Engines: 32, Seed: uint64(seed), VsOracle: v, Imbalance: 1}}, trials{})
	}
	bars := all[byOracle].bars()
	require.Len(t, bars, 2)
	require.Equal(t, Bar{Measure: "capacity by the oracle's", Bound: 0.9, Worst: 0.92, Where: "hot, 32 engines, seed 1", Cases: 3}, bars[0])
	require.InDelta(t, 0.9661, bars[1].Worst, 1e-4)
	require.Empty(t, all[tail].bars(), "nothing is known of it")

	var out bytes.Buffer
	require.NoError(t, PrintBars(&out, bars))
	require.Contains(t, out.String(), "0.920")
	require.Equal(t, 2, strings.Count(out.String(), "yes"), out.String())
	bars[0].Worst = 0.5
	out.Reset()
	require.NoError(t, PrintBars(&out, bars))
	require.Contains(t, out.String(), "NO")
}

// The bars are those of all that was run, with the runs that they need beside.
func TestBarsMakeTheRunsThatTheyNeed(t *testing.T) {
	c := Config{
		Workloads: []string{"hot", "bursts"}, Policies: []string{"least_work", WholeCacheAware}, Engines: []int{2}, Seeds: []uint64{1},
		Loads: []float64{0.7, 1}, Length: 0.05, Poll: 10 * time.Second, Settings: Defaults(),
	}
	rows, err := Run(t.Context(), c)
	require.NoError(t, err)
	bars, err := Bars(t.Context(), c, rows)
	require.NoError(t, err)
	var names []string
	for _, b := range bars {
		require.Positive(t, b.Worst, b.Measure)
		names = append(names, fmt.Sprintf("%s: %d", b.Measure, b.Cases))
	}
	require.Equal(t, []string{
		"capacity by the oracle's: 2", "capacity by the oracle's: 2", "capacity by cache_aware_whole's, 10s between reports: 2",
		"capacity by cache_aware_whole's, 1s between reports: 2", "capacity by cache_aware_whole's, 1s between reports: 2",
		"cached share by the oracle's, others, up to 70 % load: 2", "p99 TTFT by the best of the other policies, 70 % load: 2",
		"p99 TTFT by the best of the other policies, 70 % load: 2", "p99 TTFT by the best of the other policies, at the knee: 2",
		"imbalance from 70 % load, up to 8 engines: 4", "capacity with one engine at half speed, by its own: 2",
		"capacity with tokens wrong by 30 %, by its own: 1", "capacity with tokens wrong by 30 %, by its own, bursts: 1",
	}, names)
}
