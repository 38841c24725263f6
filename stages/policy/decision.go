package policy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// decision is a way in which a policy decides, with the counter of the decisions that went it.
type decision struct {
	name    string
	counter prometheus.Counter // nil: nobody counts
}

// newDecision takes the counter out of a policy's counters, which may be nil.
func newDecision(counters map[string]prometheus.Counter, name string) *decision {
	return &decision{name, counters[name]}
}

// counted are the metrics; those of nobody have no counters.
func (s *Shared) counted() *telemetry.PolicyMetrics {
	if s.Metrics == nil {
		return &telemetry.PolicyMetrics{}
	}
	return s.Metrics
}

// count counts a decision, if it is one.
func (d *decision) count(x *pipeline.Exchange) {
	if !x.DryRun && d.counter != nil {
		d.counter.Inc()
	}
}
