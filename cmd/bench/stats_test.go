package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpreadIsMedianLeastAndGreatest(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   spread
	}{
		{"one value is all three", []float64{7}, spread{7, 7, 7}},
		{"of an odd number it is the middle one, in whatever order they come", []float64{9, 1, 5}, spread{5, 1, 9}},
		{"of an even number it is the mean of the middle two", []float64{4, 1, 2, 10}, spread{3, 1, 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, spreadOf(tt.values)) })
	}
}

func TestPercentileIsAValueThatOccurred(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	tests := []struct {
		name   string
		sorted []time.Duration
		share  float64
		want   time.Duration
	}{
		{"of nothing it is 0", nil, 0.5, 0},
		{"of one value it is that", []time.Duration{3}, 0.99, 3},
		{"half of 100 values are at most the 50th", hundred, 0.50, 50},
		{"99 of 100 values are at most the 99th", hundred, 0.99, 99},
		{"all are at most the last", hundred, 1, 100},
		{"a share of 0 is the first", hundred, 0, 1},
		{"half of three is rounded up to the second", []time.Duration{1, 2, 3}, 0.5, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, percentile(tt.sorted, tt.share)) })
	}
}
