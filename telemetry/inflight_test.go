package telemetry

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 4.1.1
func TestAgesAreCountedPerBucketAndNotCumulatively(t *testing.T) {
	m := newTestMetrics()
	now := time.Now()
	ages := []float64{10, 30, 31, 60, 61, 700, 90000}
	nodes := make([]InflightNode, len(ages))
	for i, age := range ages {
		m.Inflight.Enter(&nodes[i], now.Add(-time.Duration(age*float64(time.Second))))
	}
	m.Inflight.Sample(now)
	all := series(t, m, "smg_http_inflight_request_age_count")
	require.Len(t, all, 12)
	require.Equal(t, map[string]float64{
		"gt=0,le=30": 2, "gt=30,le=60": 2, "gt=60,le=180": 1, "gt=600,le=1200": 1, "gt=86400,le=+Inf": 1,
	}, nonZero(all))
	require.Equal(t, map[string]float64{"": 7}, series(t, m, "smg_http_connections_active"))

	for i := range nodes {
		require.True(t, m.Inflight.Leave(&nodes[i]))
	}
	m.Inflight.Sample(now)
	all = series(t, m, "smg_http_inflight_request_age_count")
	require.Len(t, all, 12, "zeros are written too")
	require.Empty(t, nonZero(all))
}

// telemetry.md, section 4.1.1: ages are cut to whole seconds
func TestAgeBucket(t *testing.T) {
	tests := []struct {
		name string
		age  time.Duration
		want int
	}{
		{"a request that has just come is in the first bucket", 0, 0},
		{"a clock that stepped back does no harm", -time.Second, 0},
		{"30.9 s is 30", 30*time.Second + 900*time.Millisecond, 0},
		{"31 s is above 30", 31 * time.Second, 1},
		{"a day is the last bound", 24 * time.Hour, 10},
		{"a second more is above it", 24*time.Hour + time.Second, 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, ageBucket(tt.age)) })
	}
}

func TestInflightNodeCountsOnceHoweverItIsUsed(t *testing.T) {
	in := newTestMetrics().Inflight
	var n InflightNode
	require.False(t, in.Leave(&n), "it has not entered")
	in.Enter(&n, time.Now())
	in.Enter(&n, time.Now())
	require.Equal(t, 1, in.Len())
	require.True(t, in.Leave(&n))
	require.False(t, in.Leave(&n))
	require.Equal(t, 0, in.Len())
	in.Enter(&n, time.Now())
	require.Equal(t, 1, in.Len(), "a node may be used again")
}

func TestInflightFromManyGoroutines(t *testing.T) {
	in := newTestMetrics().Inflight
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			nodes := make([]InflightNode, 100)
			for range 20 {
				for i := range nodes {
					in.Enter(&nodes[i], time.Now())
				}
				in.Sample(time.Now())
				for i := range nodes {
					left := make(chan bool, 2) // the body's end and the client's going may both try
					go func() { left <- in.Leave(&nodes[i]) }()
					left <- in.Leave(&nodes[i])
					if a, b := <-left, <-left; a == b {
						panic("exactly one of two must take the request out")
					}
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 0, in.Len())
	for i := range in.shards {
		require.Same(t, &in.shards[i].head, in.shards[i].head.next, "the ring is closed")
	}
}

// telemetry.md, section 4.1.1: sampled every 20 s
func TestRunSamplesAgesAndWatchesTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMetrics()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		var n InflightNode
		m.Inflight.Enter(&n, time.Now())

		time.Sleep(19 * time.Second)
		require.Empty(t, nonZero(series(t, m, "smg_http_inflight_request_age_count")))
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]float64{"gt=0,le=30": 1}, nonZero(series(t, m, "smg_http_inflight_request_age_count")))
		time.Sleep(20 * time.Second)
		require.Equal(t, map[string]float64{"gt=30,le=60": 1}, nonZero(series(t, m, "smg_http_inflight_request_age_count")))
		require.InDelta(t, 4100, series(t, m, "smg_runtime_wake_delay_seconds")[""], 2, "one wake-up every 10 ms")

		cancel()
		running.Wait()
	})
}

// telemetry.md, section 4.0
func TestCanaryCountsWakeUpsMoreThanFiveMillisecondsLate(t *testing.T) {
	m := newTestMetrics()
	for _, late := range []time.Duration{-time.Second, 0, time.Millisecond, 5 * time.Millisecond, 5*time.Millisecond + 1, time.Second} {
		m.canary.woke(late)
	}
	require.Equal(t, map[string]float64{"": 2}, series(t, m, "smg_runtime_stalls_total"))
	h := scrape(t, m)["smg_runtime_wake_delay_seconds"].GetMetric()[0].GetHistogram()
	require.EqualValues(t, 6, h.GetSampleCount())
	require.EqualValues(t, 2, h.GetBucket()[0].GetCumulativeCount(), "never early")
	require.InDelta(t, 1.011, h.GetSampleSum(), 1e-6)
}
