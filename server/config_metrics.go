package server

import (
	"math"
	"net/netip"
)

// MetricsConfig says where metrics are served, and how durations are counted.
type MetricsConfig struct {
	PrometheusPort  int       `name:"prometheus-port" default:"29000" help:"Port of the metrics listener, 0 to 65535; 0 takes a free one and logs it."`
	PrometheusHost  string    `name:"prometheus-host" default:"0.0.0.0" help:"IP address that the metrics listener binds."`
	DurationBuckets []float64 `name:"prometheus-duration-buckets" type:"multi" default:"0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 15 30 45 60 90 120 180 240 300 480 900 1200 1800 2700 3600 5400 7200" placeholder:"SECONDS ..." help:"Upper bounds in seconds of the buckets of duration histograms: above 0, each above the one before. Unset: 29 bounds from 0.001 to 7200."`
}

func defaultMetrics() MetricsConfig {
	return MetricsConfig{
		PrometheusPort: 29000,
		PrometheusHost: "0.0.0.0",
		DurationBuckets: []float64{
			0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240, 300,
			480, 900, 1200, 1800, 2700, 3600, 5400, 7200,
		},
	}
}

// MetricsAddress is what the metrics listener binds, as host:port; port 0 is any free one.
func (c *MetricsConfig) MetricsAddress() string { return hostPort(c.PrometheusHost, c.PrometheusPort) }

func (c *MetricsConfig) check(found *violations) {
	found.whole("--prometheus-port", int64(c.PrometheusPort), 0, maxPort)
	if _, err := netip.ParseAddr(unbracket(c.PrometheusHost)); err != nil {
		found.add("--prometheus-host", c.PrometheusHost, "must be an IP address")
	}
	for i, bound := range c.DurationBuckets {
		found.fraction("--prometheus-duration-buckets", bound, math.SmallestNonzeroFloat64, math.MaxFloat64)
		if i > 0 && bound <= c.DurationBuckets[i-1] {
			found.add("--prometheus-duration-buckets", bound, "must be above the bound before it (%v)", c.DurationBuckets[i-1])
		}
	}
}
