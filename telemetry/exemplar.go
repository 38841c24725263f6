package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Exemplar is what a histogram keeps of one request among many: its trace, for whoever looks at a bucket and wants to see such a
// request. The zero value is none; with it, observing is what it is without exemplars. Scrapes in OpenMetrics show them, those in
// the text format do not.
type Exemplar struct{ labels prometheus.Labels }

// Exemplar names the trace of the span. A span that is not recorded has none: nobody could look its trace up.
func (s *Span) Exemplar() Exemplar {
	if !s.Recording() {
		return Exemplar{}
	}
	trace, _ := s.IDs()
	return Exemplar{prometheus.Labels{"trace_id": trace}}
}

// Observe observes a value of the request; e takes the place of the last exemplar in the value's bucket. An observer that keeps no
// exemplars gets the value alone.
func (e Exemplar) Observe(o prometheus.Observer, v float64) {
	if e.labels != nil {
		if keeper, ok := o.(prometheus.ExemplarObserver); ok {
			keeper.ObserveWithExemplar(v, e.labels)
			return
		}
	}
	o.Observe(v)
}
