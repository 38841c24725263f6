package telemetry

import (
	"context"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options are the settings of [NewMetrics].
type Options struct {
	// DurationBuckets replaces the bounds, in seconds and ascending, of all histograms that measure requests: those whose name
	// ends in duration_seconds, ttft_seconds or tpot_seconds, except the stages'. Empty keeps the 29 defaults, 1 ms to 2 h.
	DurationBuckets []float64
	Version, Commit string // labels of smg_build_info
}

// Metrics holds every metric family of a gateway. All methods, and those of the handles it gives, may be called at once.
type Metrics struct {
	HTTP      *HTTPMetrics      // requests on the main listener
	Admission *AdmissionMetrics // the limiter in front of it
	Router    *RouterMetrics    // requests that are routed, by model
	Workers   *WorkerMetrics    // attempts, by worker
	Upstream  *UpstreamMetrics  // connections to workers
	Fleet     *FleetMetrics     // changes of the fleet
	Inflight  *Inflight         // which requests are in flight, and since when
	Traces    *TraceMetrics     // spans
	Policies  *PolicyMetrics    // decisions
	Loads     *LoadMetrics      // polls of engines
	Records   *RecordMetrics    // requests that are recorded
	Discovery *DiscoveryMetrics // workers that come and go by themselves

	families families
	models   labelSet
	canary   canary
	log      *logLosses
	state    *gatewayState
}

// NewMetrics makes all families on a registry of their own. Series whose labels form a closed set exist, at 0, from here on.
func NewMetrics(o Options) *Metrics {
	if len(o.DurationBuckets) == 0 {
		o.DurationBuckets = defaultDurations
	}
	m := &Metrics{
		families: families{registry: prometheus.NewRegistry(), durations: o.DurationBuckets},
		models:   labelSet{limit: maxModels},
	}
	f := &m.families
	f.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f.gaugeVec("smg_build_info", "Constant 1; the labels tell which build this is.", "version", "commit", "go_version").
		WithLabelValues(cleanLabel(o.Version), cleanLabel(o.Commit), runtime.Version()).Set(1)
	m.canary = newCanary(f)
	m.log = newLogLosses(f)
	m.state = newGatewayState(f)
	codes := &labelSet{limit: maxErrorCodes}
	m.Inflight = newInflight(f)
	m.HTTP = newHTTPMetrics(f, codes)
	m.Admission = newAdmissionMetrics(f)
	m.Router = newRouterMetrics(f, &m.models, codes)
	m.Workers = newWorkerMetrics(f, &m.models)
	m.Upstream = newUpstreamMetrics(f)
	m.Fleet = newFleetMetrics(f)
	m.Traces = newTraceMetrics(f)
	m.Policies = newPolicyMetrics(f)
	m.Loads = newLoadMetrics(f)
	m.Records = newRecordMetrics(f)
	m.Discovery = newDiscoveryMetrics(f)
	return m
}

// Registry is where the families are registered; a program may add its own.
func (m *Metrics) Registry() *prometheus.Registry { return m.families.registry }

// Families lists smg's families by name, without those of the Go runtime and the process.
func (m *Metrics) Families() []Family { return m.families.sorted() }

// WatchLog exports the lines that l lost, by output; until then both series are 0.
func (m *Metrics) WatchLog(l *Log) { m.log.log.Store(l) }

// Run watches the scheduler and samples the ages of requests in flight until ctx is done.
func (m *Metrics) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { m.canary.run(ctx) })
	running.Go(func() { m.Inflight.run(ctx) })
	running.Wait()
}
