package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// logLosses reads from a [Log], at the scrape, how many lines its outputs lost.
type logLosses struct {
	log  atomic.Pointer[Log]
	lost *prometheus.Desc
}

func newLogLosses(f *families) *logLosses {
	c := &logLosses{lost: f.desc("counter", "smg_log_lines_dropped_total", "Log lines that an output did not take.", "sink")}
	f.registry.MustRegister(c)
	return c
}

// Describe is part of [prometheus.Collector].
func (c *logLosses) Describe(ch chan<- *prometheus.Desc) { ch <- c.lost }

// Collect is part of [prometheus.Collector].
func (c *logLosses) Collect(ch chan<- prometheus.Metric) {
	var stdout, file uint64
	if l := c.log.Load(); l != nil {
		stdout, file = l.Dropped()
	}
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(stdout), "stdout")
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(file), "file")
}
