package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// vague is a rank of an engine whose number of waiting requests cannot be one.
func vague(usage float64) workers.RankLoad {
	return workers.RankLoad{Usage: usage, Throughput: 100, Sent: workers.SentUsage | workers.SentThroughput, Ignored: workers.SentWaiting}
}

// cases.md C13 and DECISIONS 45: a number that is ignored is not 0. Such a worker is as one without a report, and not better than what the
// rest of its report says.
func TestAQueueThatIsNotKnownIsNotAnEmptyOne(t *testing.T) {
	tests := []struct {
		name   string
		states []state
		want   []float64
	}{
		{"it is no better than the best", []state{reported(load(1000, 0, 100)), reported(vague(0)), reported(load(4000, 0, 100))}, []float64{10, 10, 40}},
		{"what it has in flight counts", []state{reported(load(1000, 0, 100)), {reported(vague(0)).ranks, 3}}, []float64{10, 10 + 3*10.24}},
		{"so does what it says", []state{reported(load(0, 0, 100)), reported(vague(0.9))}, []float64{0, 1.35}},
		{"of usage it is the same", []state{
			reported(load(1000, 0, 100)),
			reported(workers.RankLoad{WaitingTokens: 4000, Throughput: 100, Ignored: workers.SentUsage}), reported(workers.RankLoad{Throughput: 100, Ignored: workers.SentUsage}),
		}, []float64{10, 40, 10}},
		{"with all of them vague the one with less in flight wins", []state{{reported(vague(0)).ranks, 3}, {reported(vague(0.9)).ranks, 1}, dark(2)}, []float64{3, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, tt.states...)
			values := scores(t, newBuiltInWait(nil), all)
			require.InDeltaSlice(t, tt.want, values, 1e-9)
			best := slices.Min(values)
			for range 40 {
				require.Equal(t, best, values[chosen(newBuiltInWait(nil), all, 0)])
			}
		})
	}
	all := in(t, reported(vague(0)), reported(vague(0)))
	s := newExpectedWait(0.15, 2000, 1024, 1, nil)
	require.ElementsMatch(t, []int{0, 1, -1}, []int{chosen(s, all, 0), chosen(s, all, 0), chosen(s, all, 0)}, "the cap counts what was sent")
	all = in(t, reported(load(0, 0, 100)), reported(vague(0)))
	counts := map[int]int{}
	for range 200 {
		counts[chosen(newBuiltInWait(nil), all, 0)]++
	}
	require.Len(t, counts, 2, "nor does it starve")
}

// Issue "Bad input": what engines make up never gives a score that is no number, and never attracts traffic.
func TestReportsThatMakeNoSenseAttractNobody(t *testing.T) {
	tests := []struct {
		name string
		rank workers.RankLoad
	}{
		{"a huge queue", load(math.MaxInt64, 0, 100)},
		{"a huge number of requests", waiting(math.MaxInt64, 0, 100)},
		{"a throughput that is next to nothing", load(1e6, 0, 5e-324)},
		{"a throughput that is no number", load(30000, 0, math.NaN())},
		{"an infinite throughput", load(30000, 0, math.Inf(1))},
		{"a negative throughput", load(30000, 0, -5)},
		{"a usage beyond all bounds", load(0, math.MaxFloat64, 100)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, reported(tt.rank), reported(load(1000, 0, 100)), dark(1000))
			s := newBuiltInWait(nil)
			for _, score := range scores(t, s, all) {
				require.False(t, math.IsInf(score, 0))
			}
			require.Equal(t, 1, chosen(s, all, 0))
			require.Equal(t, 0, chosen(s, all[:1], 0), "alone it serves")
			scores(t, s, all[:1])
		})
	}
	all := in(t, reported(load(-5000, -1, 100)), reported(waiting(-5000, 0, 100)), reported(load(0, 0, 100)))
	require.Equal(t, []float64{0, 0, 0}, scores(t, newBuiltInWait(nil), all), "less than nothing is nothing")
}
