package telemetry

import "github.com/prometheus/client_golang/prometheus"

// TraceMetrics counts spans by what became of them.
type TraceMetrics struct {
	Exported prometheus.Counter // the collector took them
	Dropped  prometheus.Counter // too many were waiting for it
	Failed   prometheus.Counter // it could not be reached, or refused them
}

func newTraceMetrics(f *families) *TraceMetrics {
	v := f.counterVec("smg_trace_spans_total", "Spans that ended, by what became of them.", "result")
	return &TraceMetrics{
		Exported: v.WithLabelValues("exported"), Dropped: v.WithLabelValues("dropped"), Failed: v.WithLabelValues("failed"),
	}
}
