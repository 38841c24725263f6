package stages

import (
	"context"
	"sync/atomic"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// HTTPMetrics counts the route's requests on arrival and its responses when their body has gone out, measures the time to the
// head, and keeps the request among those in flight until it is over. It concludes the request: what stands before it sees
// the final response. Of one request in 64 it has the stages measure what costs time to measure; how much of the time to the head was
// the gateway's own is one of these. path is the route's template.
func HTTPMetrics(path string, m *telemetry.Metrics) pipeline.Stage {
	return &httpMetrics{metrics: m, route: m.HTTP.Route(path), endpoint: telemetry.EndpointOf(path)}
}

type httpMetrics struct {
	metrics  *telemetry.Metrics
	route    *telemetry.RouteMetrics
	endpoint string
	arrived  atomic.Uint64
}

// inFlightNode is the request's place among those in flight.
var inFlightNode = pipeline.NewFact[telemetry.InflightNode]("in_flight_node")

var (
	_ pipeline.Stage      = (*httpMetrics)(nil)
	_ pipeline.Contracted = (*httpMetrics)(nil)
)

func (*httpMetrics) Name() string { return "http_metrics" }

func (s *httpMetrics) Contract() pipeline.Contract {
	return pipeline.Contract{Uses: []pipeline.Dependency{metricsSampling{s.metrics}}}
}

// metricsSampling is the background part of the metrics.
type metricsSampling struct{ metrics *telemetry.Metrics }

func (metricsSampling) Name() string { return "metrics" }

func (s metricsSampling) Run(ctx context.Context, ready func()) error {
	ready()
	s.metrics.Run(ctx)
	return nil
}

func (s *httpMetrics) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	method := telemetry.MethodLabel(x.Client.Method())
	s.route.Requests(method).Inc()
	x.Measured = (s.arrived.Add(1)-1)%observedOf == 0
	node := inFlightNode.Fill(x)
	s.metrics.Inflight.Enter(node, x.Arrived)
	defer s.metrics.Inflight.Leave(node)

	err := x.Conclude(next)
	status, code := x.Result(err)
	s.route.Response(status, code).Inc()
	if at := x.HeadAt(); !at.IsZero() {
		exemplar.Get(x).Observe(s.route.Duration(method), at.Sub(x.Arrived).Seconds())
	}
	if own, ok := x.Overhead(); ok && x.TriedCount() > 0 {
		s.metrics.HTTP.Overhead(s.endpoint).Observe(own.Seconds())
	}
	if code == pipeline.ErrClientGone.Code {
		s.metrics.HTTP.ClientDisconnects(s.endpoint, phase(x)).Inc()
	}
	return err
}

func phase(x *pipeline.Exchange) telemetry.Phase {
	switch {
	case queued.Get(x):
		return telemetry.PhaseQueued
	case x.HeadAt().IsZero():
		return telemetry.PhaseBeforeHead
	}
	return telemetry.PhaseStreaming
}
