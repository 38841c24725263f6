package main

import (
	"math"
	"slices"
	"time"
)

// spread is a figure over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of values, of which there must be at least one. The median of an even number is the mean of
// the middle two.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return spread{Median: median, Min: sorted[0], Max: sorted[n-1]}
}

// percentile returns the smallest of the sorted values that is not less than the given share (0 to 1) of them; 0 if there are none.
func percentile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
