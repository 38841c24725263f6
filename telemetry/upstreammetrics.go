package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// UpstreamMetrics counts the connections to workers that requests were sent on.
type UpstreamMetrics struct {
	fresh, reused prometheus.Counter
	connect       prometheus.Observer
}

func newUpstreamMetrics(f *families) *UpstreamMetrics {
	v := f.counterVec("smg_upstream_connections_total",
		"Connections that requests to workers got, by whether they were there already.", "connection_mode", "reused")
	return &UpstreamMetrics{
		fresh: v.WithLabelValues("http", "false"), reused: v.WithLabelValues("http", "true"),
		connect: f.durationVec("smg_upstream_connect_duration_seconds",
			"Time to make a connection to a worker, a TLS handshake included.").WithLabelValues(),
	}
}

// Connection counts a connection that a request to a worker over HTTP got. took is how long it took to make it; it means nothing
// for one that was there.
func (u *UpstreamMetrics) Connection(reused bool, took time.Duration) {
	if reused {
		u.reused.Inc()
		return
	}
	u.fresh.Inc()
	u.connect.Observe(took.Seconds())
}
