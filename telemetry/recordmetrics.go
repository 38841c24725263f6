package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RecordMetrics counts requests that were recorded by what became of their lines.
type RecordMetrics struct {
	Written prometheus.Counter // they are in the file
	Dropped prometheus.Counter // too much was waiting for the disk
	Failed  prometheus.Counter // the disk did not take them
}

func newRecordMetrics(f *families) *RecordMetrics {
	v := f.counterVec("smg_record_requests_total", "Requests that were to be recorded, by what became of their lines.", "result")
	return &RecordMetrics{
		Written: v.WithLabelValues("written"), Dropped: v.WithLabelValues("dropped"), Failed: v.WithLabelValues("failed"),
	}
}
