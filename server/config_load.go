package server

import (
	"math"

	"github.com/smg-go/smg/workers"
)

// OverloadConfig says when a worker has so much to do that it gets no more requests.
type OverloadConfig struct {
	WorkerOverloadProtection bool     `name:"worker-overload-protection" help:"Send no requests to a worker whose last load report is over a ceiling: 0.9 of its KV cache, unless --worker-overload-token-usage says otherwise."`
	WorkerOverloadWaiting    *int64   `name:"worker-overload-waiting-requests" placeholder:"N" help:"Ceiling of the requests that wait in a worker's queue (at least 1), itself included. It alone turns the protection on. Unset: none."`
	WorkerOverloadUsage      *float64 `name:"worker-overload-token-usage" placeholder:"SHARE" help:"Ceiling of the share of a worker's KV cache in use (above 0, at most 1), itself included. It alone turns the protection on. Unset: 0.9 with --worker-overload-protection, else none."`
	WorkerOverloadFallback   bool     `name:"worker-overload-fallback" help:"When every worker is over a ceiling, send requests to the least loaded one instead of turning them away."`
}

// overloadUsage is the ceiling of the protection when nothing more is said.
const overloadUsage = 0.9

// Ceilings are those of every worker that has none of its own.
func (c *OverloadConfig) Ceilings() (s workers.OverloadSettings) {
	if c.WorkerOverloadProtection {
		s.TokenUsage = overloadUsage
	}
	if c.WorkerOverloadWaiting != nil {
		s.WaitingRequests = *c.WorkerOverloadWaiting
	}
	if c.WorkerOverloadUsage != nil {
		s.TokenUsage = *c.WorkerOverloadUsage
	}
	return s
}

func (c *OverloadConfig) check(found *violations) {
	if c.WorkerOverloadWaiting != nil {
		found.whole("--worker-overload-waiting-requests", *c.WorkerOverloadWaiting, 1, math.MaxInt64)
	}
	if u := c.WorkerOverloadUsage; u != nil && !(*u > 0 && *u <= 1) { // not: NaN is neither
		found.add("--worker-overload-token-usage", *u, "must be above 0 and at most 1")
	}
}

// LoadConfig says how engines are asked for their load.
type LoadConfig struct {
	LoadMonitorInterval   Seconds `name:"load-monitor-interval" default:"10" help:"Seconds between polls of a worker for its load (at least 1); also the Retry-After of requests that are turned away because every worker is overloaded. A worker's load_monitor_interval_secs takes its place for all workers of its model."`
	DisableLoadMonitoring bool    `name:"disable-load-monitoring" help:"Poll workers only while something needs it: a policy that reads loads, the overload protection, or --engine-metrics."`
	EngineMetrics         bool    `name:"engine-metrics" help:"Poll workers for the metrics smg_engine_* alone, although --disable-load-monitoring is given."`
}

func defaultLoad() LoadConfig { return LoadConfig{LoadMonitorInterval: 10} }

func (c *LoadConfig) check(found *violations) {
	found.seconds("--load-monitor-interval", c.LoadMonitorInterval, 1)
}
