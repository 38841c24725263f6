package server

import (
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/telemetry"
)

// inference is the way of a JSON inference request, outermost stage first. What routes share is made once, in newGateway.
func (g *gateway) inference(route string, kind stages.Kind) (*pipeline.Chain, error) {
	path := pathOf(route)
	endpoint := telemetry.EndpointOf(path)
	return g.wanted(pipeline.Assemble(route,
		stages.RequestID(g.cfg.RequestIDHeaders),
		stages.HTTPMetrics(path, g.metrics),
		stages.AccessLog(g.log, false),
		stages.PayloadLimit(g.cfg.MaxPayloadSize),
		stages.Buffer(g.buffering, kind),
		stages.Body(g.bodies, kind),
		stages.Model(g.models, kind),
		stages.Prompt(g.demand, kind),
		g.routingKey(kind),
		stages.Account(endpoint, g.metrics),
		stages.Record(g.recorder, path, kind),
		stages.Retry(g.retries, endpoint, g.metrics), // from here on: once for each attempt
		stages.ExplainHeader(),
		stages.Candidates(g.registry, g.startup, g.health),
		stages.Available(),
		stages.Breaker(),
		stages.Overload(g.loads, g.metrics.Workers, g.cfg.WorkerOverloadFallback), // last filter: answers for an empty list
		stages.Untried(),
		stages.Policy(g.policies, g.metrics),
		stages.Dispatch(g.loads.Interval(), g.metrics.Workers.Sheds(telemetry.ShedDispatch)),
		stages.InFlight(),
		forward.To(g.transport, g.forwarding(kind)),
	))
}

// wanted is a chain without the stages that are off.
func (g *gateway) wanted(c *pipeline.Chain, err error) (*pipeline.Chain, error) {
	if err == nil && !g.cfg.ExplainHeader {
		c, err = c.Without("explain_header")
	}
	if err == nil && g.cfg.Record == "" {
		c, err = c.Without("record")
	}
	return c, err
}

// anthropic is inference with the error form of its clients.
func (g *gateway) anthropic(route string, kind stages.Kind) (*pipeline.Chain, error) {
	c, err := g.inference(route, kind)
	if err != nil {
		return nil, err
	}
	return c.WithForm(forward.AnthropicForm), nil
}

// proxied is the way of a question that the first ready worker answers, by the route's path or else by another ("" for none).
func (g *gateway) proxied(route, other string) (*pipeline.Chain, error) {
	return pipeline.Assemble(route,
		stages.RequestID(g.cfg.RequestIDHeaders),
		stages.HTTPMetrics(pathOf(route), g.metrics),
		stages.AccessLog(g.log, false),
		g.firstReady(),
		eitherName(pathOf(route), other),
		forward.To(g.transport, forward.Settings{MaxAnswer: g.cfg.MaxPayloadSize, Metrics: g.metrics}),
	)
}

// own is the way of a request that the gateway answers itself.
func (g *gateway) own(route string, last pipeline.Stage) (*pipeline.Chain, error) {
	return pipeline.Assemble(route,
		stages.RequestID(g.cfg.RequestIDHeaders),
		stages.HTTPMetrics(pathOf(route), g.metrics),
		stages.AccessLog(g.log, isProbe(route)),
		stages.PayloadLimit(g.cfg.MaxPayloadSize),
		last,
	)
}

// admin is own with the error form of the worker API.
func (g *gateway) admin(route string, last pipeline.Stage) (*pipeline.Chain, error) {
	c, err := g.own(route, last)
	if err != nil {
		return nil, err
	}
	return c.WithForm(adminForm), nil
}

// chains are the chains of all routes.
func (g *gateway) chains() ([]*pipeline.Chain, error) {
	a := assembly{traced: g.traced}
	a.add(g.inference("POST /v1/chat/completions", stages.Chat))
	a.add(g.inference("POST /v1/completions", stages.Completions))
	a.add(g.inference("POST /generate", stages.Generate))
	a.add(g.inference("POST /v1/embeddings", stages.Embeddings))
	a.add(g.inference("POST /v1/classify", stages.Classify))
	a.add(g.anthropic("POST /v1/messages", stages.Messages))
	a.add(g.inference("POST /v1/responses", stages.Responses))
	a.add(g.inference("POST /rerank", stages.Rerank))
	a.add(g.inference("POST /v1/rerank", stages.V1Rerank))

	a.add(g.own("GET /health", alive()))
	a.add(g.own("GET /liveness", alive()))
	a.add(g.own("GET /readiness", g.ready()))
	a.add(g.own("GET /v1/models", g.listModels()))
	a.add(g.own("GET /v1/models/{model}", g.showModel()))
	a.add(g.own("GET /engine_metrics", g.engineMetrics()))
	a.add(g.own("GET /loads", g.listLoads()))
	a.add(g.admin("GET /get_loads", g.listLoads()))
	a.add(g.proxied("GET /health_generate", ""))
	a.add(g.proxied("GET /get_model_info", "/model_info"))
	a.add(g.proxied("GET /get_server_info", "/server_info"))

	a.add(g.admin("POST /explain", g.explain()))
	a.add(g.admin("GET /workers", g.listWorkers()))
	a.add(g.admin("POST /workers", g.addWorker()))
	a.add(g.admin("GET /workers/{worker_id}", g.showWorker()))
	a.add(g.admin("DELETE /workers/{worker_id}", g.removeWorker()))

	a.add(g.own(unmatched, unknownURL()))
	return a.chains, a.err
}

// assembly gathers chains until the first that cannot be assembled.
type assembly struct {
	traced func(*pipeline.Chain) *pipeline.Chain
	chains []*pipeline.Chain
	err    error
}

func (a *assembly) add(c *pipeline.Chain, err error) {
	if err != nil && a.err == nil {
		a.err = err
	}
	if a.err == nil {
		a.chains = append(a.chains, a.traced(c))
	}
}

// traced is a chain whose requests are recorded; those of probes are not.
func (g *gateway) traced(c *pipeline.Chain) *pipeline.Chain {
	if isProbe(c.Route()) {
		return c
	}
	return c.Traced(stages.Tracer(c.Route(), g.tracing, g.metrics))
}

// pathOf is the path template of a route.
func pathOf(route string) string {
	_, path, found := strings.Cut(route, " ")
	if !found {
		return telemetry.PathOther
	}
	return path
}

// isProbe tells routes that are asked every few seconds; requests without a route are logged as rarely.
func isProbe(route string) bool {
	switch route {
	case "GET /health", "GET /liveness", "GET /readiness", unmatched:
		return true
	}
	return false
}
