package main

import (
	"log/slog"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// parts are what the stages share, made once.
type parts struct {
	metrics   *telemetry.Metrics
	registry  *workers.Registry
	enroller  *workers.Enroller
	startup   pipeline.Dependency // registers the workers
	health    pipeline.Dependency // probes them
	tenants   *tenants
	policies  *policy.Set
	transport *forward.Transport
}

// newParts makes the parts. Nothing runs or is contacted before a chain that uses it is served.
func newParts(o *options, log *slog.Logger) *parts {
	p := &parts{
		metrics: telemetry.NewMetrics(telemetry.Options{}), registry: workers.NewRegistry(),
		tenants:   &tenants{file: o.tenants, every: time.Second},
		policies:  policy.Only("round_robin"),
		transport: forward.NewTransport(forward.Options{}),
	}
	p.registry.Listen(p.policies)
	startup := workers.Startup{Interval: time.Second, Timeout: time.Hour}
	p.enroller = workers.NewEnroller(p.registry, workers.DefaultSettings(), startup, log)
	p.startup = p.enroller.Startup(o.specs())
	p.health = workers.NewHealthLoop(p.registry, log)
	return p
}

const (
	route    = "POST /v1/chat/completions"
	path     = "/v1/chat/completions"
	maxBytes = 16 << 20 // of a request body
)

// chain is the way of a request, outermost stage first: the built-in stages, with Tier and Reserve among them.
func (p *parts) chain() (*pipeline.Chain, error) {
	endpoint := telemetry.EndpointOf(path)
	return pipeline.Assemble(route,
		stages.RequestID([]string{"x-request-id"}),
		stages.HTTPMetrics(path, p.metrics),
		Tier(p.tenants), // before Body: of a stranger's request no byte is read
		stages.Body(stages.BodySettings{MaxBytes: maxBytes, Stall: time.Minute}, stages.Chat),
		stages.Model(&stages.Models{Registry: p.registry}, stages.Chat),
		stages.Retry(stages.DefaultRetrySettings(), endpoint, p.metrics), // from here on: once for each attempt
		stages.Candidates(p.registry, p.startup, p.health),
		stages.Available(),
		stages.Breaker(),
		Reserve(),
		stages.Untried(),
		stages.Policy(p.policies, p.metrics),
		stages.Dispatch(time.Second, p.metrics.Workers.Sheds(telemetry.ShedDispatch)),
		stages.InFlight(),
		forward.To(p.transport, forward.Settings{MaxAnswer: maxBytes, Keepalive: 15 * time.Second, Metrics: p.metrics}),
	)
}
