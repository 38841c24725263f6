package telemetry

import "github.com/prometheus/client_golang/prometheus"

// DiscoveryMetrics counts what service discovery does.
type DiscoveryMetrics struct {
	AddFailures    prometheus.Counter // smg_discovery_submit_failures_total{action="add"}: registrations that the queue did not take
	RemoveFailures prometheus.Counter // smg_discovery_submit_failures_total{action="remove"}
	SnapshotErrors prometheus.Counter // smg_discovery_snapshot_errors_total: the source could not be read

	registrations, deregistrations *prometheus.CounterVec
	sync                           *prometheus.HistogramVec
	discovered                     *prometheus.GaugeVec
}

// DiscoverySource are the series of one source of workers. They count what is submitted; how it ends is for the log.
type DiscoverySource struct {
	Discovered   prometheus.Gauge    // workers that are wanted, as of the latest pass
	Registered   prometheus.Counter  // registrations that were submitted
	Refused      prometheus.Counter  // registrations that could not be submitted
	Deregistered prometheus.Counter  // removals that were submitted
	Sync         prometheus.Observer // seconds of a pass that submitted something, from its view of the workers to its last submission
}

func newDiscoveryMetrics(f *families) *DiscoveryMetrics {
	failures := f.counterVec("smg_discovery_submit_failures_total",
		"Additions and removals of discovered workers that the job queue did not take.", "action")
	return &DiscoveryMetrics{
		AddFailures:    failures.WithLabelValues("add"),
		RemoveFailures: failures.WithLabelValues("remove"),
		SnapshotErrors: f.counter("smg_discovery_snapshot_errors_total", "Times that the source of workers could not be read; the workers stay as they are."),
		registrations: f.counterVec("smg_discovery_registrations_total",
			"Registrations of discovered workers that were submitted, not how they ended.", "source", "result"),
		deregistrations: f.counterVec("smg_discovery_deregistrations_total",
			"Removals of discovered workers that were submitted, not how they ended.", "source", "reason"),
		sync: f.durationVec("smg_discovery_sync_duration_seconds",
			"How long passes took that added or removed workers, the wait for a full job queue included.", "source"),
		discovered: f.gaugeVec("smg_discovery_workers_discovered", "Workers that the source wants, as of the latest pass.", "source"),
	}
}

// Source makes the series of a source, "kubernetes" or "file". They exist, at 0, from here on.
func (d *DiscoveryMetrics) Source(name string) *DiscoverySource {
	return &DiscoverySource{
		Discovered:   d.discovered.WithLabelValues(name),
		Registered:   d.registrations.WithLabelValues(name, "success"),
		Refused:      d.registrations.WithLabelValues(name, "failed"),
		Deregistered: d.deregistrations.WithLabelValues(name, "reconciled"),
		Sync:         d.sync.WithLabelValues(name),
	}
}
