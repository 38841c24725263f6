package replay

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A row for each policy and load, the oracle's among them.
func TestRunGivesARowForEachPolicyAndLoad(t *testing.T) {
	var progress bytes.Buffer
	rows, err := Run(t.Context(), Config{
		Workloads: []string{"hot"}, Policies: []string{"random"}, Engines: []int{2}, Seeds: []uint64{1, 2}, Loads: []float64{0.5, 0.7},
		Length: 0.05, Settings: Defaults(), Progress: &progress,
	})
	require.NoError(t, err)
	require.Len(t, rows, 2*2*2)
	for _, r := range rows {
		require.Equal(t, "hot", r.Workload)
		require.True(t, r.TTFTP50 > 0 && r.TTFTP50 <= r.TTFTP90 && r.TTFTP90 <= r.TTFTP99 && r.TTFTP99 < r.E2EP99, "%+v", r)
		require.True(t, r.CachedShare > 0 && r.CachedShare < 1, "%+v", r)
		require.GreaterOrEqual(t, r.Imbalance, 1.0)
		require.Positive(t, r.Capacity)
		if r.Policy == Oracle {
			require.Equal(t, 1.0, r.VsOracle)
		}
	}
	require.Contains(t, progress.String(), "random at")

	var table bytes.Buffer
	require.NoError(t, Print(&table, rows))
	require.Equal(t, 2, strings.Count(table.String(), "hot, 2 engines"), table.String())
	require.Equal(t, 4, strings.Count(table.String(), "random"), table.String())
}

// Deterministic for a seed, also where runs go on side by side, and in the order in which they were asked for.
func TestRunsSideBySideGiveTheSameRows(t *testing.T) {
	c := Config{
		Workloads: []string{"sessions", "hot"}, Policies: []string{"power_of_two", "least_work", "cache_aware", "random"}, Engines: []int{3, 2},
		Seeds: []uint64{1}, Loads: []float64{0.7, 0.5}, Length: 0.02, Settings: Defaults(), Poll: time.Second,
	}
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	rows, err := Run(t.Context(), c)
	require.NoError(t, err)
	runtime.GOMAXPROCS(1)
	again, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, again, rows)
	var order []string
	for _, r := range rows {
		order = append(order, fmt.Sprintf("%d %s %s %g", r.Engines, r.Workload, r.Policy, r.Load))
	}
	require.Len(t, order, 2*2*5*2)
	require.Equal(t, []string{"3 sessions oracle 0.7", "3 sessions oracle 0.5", "3 sessions power_of_two 0.7"}, order[:3])
	require.Equal(t, []string{"2 hot cache_aware 0.5", "2 hot random 0.7", "2 hot random 0.5"}, order[len(order)-3:])
}

func TestRunStopsWhenItIsTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Run(ctx, Config{Workloads: []string{"hot"}, Engines: []int{2}, Seeds: []uint64{1}, Loads: []float64{1}, Length: 0.05, Settings: Defaults()})
	require.ErrorIs(t, err, context.Canceled)
}

// Plots (SVG) of TTFT over load.
func TestAPlotHasALineForEachPolicy(t *testing.T) {
	var rows []Row
	for _, name := range []string{"oracle", "random", "<odd>"} {
		for _, load := range []float64{0.3, 0.7, 1.1} {
			rows = append(rows, Row{Workload: "hot", Policy: name, Engines: 8, Load: load, TTFTP90: load * load})
		}
	}
	var svg bytes.Buffer
	require.NoError(t, Plot(&svg, rows))
	lines := 0
	for in := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "it is XML")
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "polyline" {
			continue
		}
		lines++
		for _, a := range start.Attr {
			if a.Name.Local == "points" {
				require.Len(t, strings.Fields(a.Value), 3, "a point for each load")
			}
		}
	}
	require.Equal(t, 3, lines)
	require.NoError(t, Plot(io.Discard, rows[:1]), "one point is a plot")
}

func TestAQuantileIsAValueThatWasSeen(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.1: 1, 0.5: 5, 0.9: 9, 0.99: 10, 1: 10} {
		require.Equal(t, want, quantile([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, q), "%g", q)
	}
	require.Zero(t, quantile(nil, 0.9))
	require.Zero(t, mean(nil))
}
