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
		stages.Auth(g.guards.keys),
		stages.Withhold(g.guards.own()),
		stages.Tenant(g.guards.header),
		stages.Admission(g.admission), // before Body: a request that waits here has not been read
		stages.Buffer(g.buffering, kind),
		stages.Body(g.bodies, kind),
		stages.Model(g.models, kind),
		stages.Prompt(g.demand, kind),
		g.routingKey(kind),
		stages.Account(endpoint, g.metrics),
		stages.Record(g.recorder, path, kind),
		stages.Retry(g.retries, endpoint, g.metrics), // from here on: once for each attempt
		stages.ExplainHeader(),
		stages.Candidates(g.registry, g.fleet()...),
		stages.Available(),
		stages.Breaker(),
		stages.Overload(g.loads, g.metrics.Workers, g.cfg.WorkerOverloadFallback), // last filter: answers for an empty list
		stages.Untried(),
		stages.Policy(g.policies, g.metrics),
		stages.Dispatch(g.loads.Interval(), g.metrics.Workers.Sheds(telemetry.ShedDispatch)),
		stages.Rank(),
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
	if err == nil && g.cfg.AdmissionLimit() == 0 {
		c, err = c.Without("admission")
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

// form is inference whose body is a form, which goes to the worker as it comes.
func (g *gateway) form(route string, kind stages.Kind) (*pipeline.Chain, error) {
	c, err := g.inference(route, kind)
	if err != nil {
		return nil, err
	}
	if c, err = c.Without("buffer"); err != nil { // nothing is left to decide
		return nil, err
	}
	if c, err = c.Replace("body", stages.Form(g.bodies, g.models)); err != nil {
		return nil, err
	}
	return c.After("candidates", stages.WholeEngines())
}

// proxied is the way of a question that the first ready worker answers, by the route's path or else by another ("" for none).
func (g *gateway) proxied(route, other string) (*pipeline.Chain, error) {
	return pipeline.Assemble(route,
		stages.RequestID(g.cfg.RequestIDHeaders),
		stages.HTTPMetrics(pathOf(route), g.metrics),
		stages.AccessLog(g.log, false),
		stages.PayloadLimit(g.cfg.MaxPayloadSize),
		stages.Withhold(g.guards.own()),
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

// admin is own for operators, with the error form of the worker API.
func (g *gateway) admin(route string, last pipeline.Stage) (*pipeline.Chain, error) {
	c, err := g.own(route, last)
	if err == nil {
		c, err = c.Before(last.Name(), stages.ControlAuth(g.guards.operators, g.guards.audit.decisions()))
	}
	if err == nil && isChange(route) {
		c, err = c.Before(last.Name(), g.guards.audit.changes())
	}
	if err != nil {
		return nil, err
	}
	return c.WithForm(adminForm), nil
}

// chains are the chains of all routes, each in the tier that it is for.
func (g *gateway) chains() ([]*pipeline.Chain, error) {
	a := assembly{traced: g.traced, guards: g.guards, tiers: map[string]tier{}}
	a.serving(g.inference("POST /v1/chat/completions", stages.Chat))
	a.serving(g.inference("POST /v1/completions", stages.Completions))
	a.serving(g.inference("POST /generate", stages.Generate))
	a.serving(g.inference("POST /v1/embeddings", stages.Embeddings))
	a.serving(g.inference("POST /v1/classify", stages.Classify))
	a.serving(g.anthropic("POST /v1/messages", stages.Messages))
	a.serving(g.anthropic("POST /v1/messages/count_tokens", stages.CountTokens))
	a.serving(g.inference("POST /v1/responses", stages.Responses))
	a.serving(g.inference("POST /rerank", stages.Rerank))
	a.serving(g.inference("POST /v1/rerank", stages.V1Rerank))
	a.serving(g.form("POST /v1/audio/transcriptions", stages.Transcriptions))

	a.public(g.own("GET /health", alive()))
	a.public(g.own("GET /liveness", alive()))
	a.public(g.own("GET /readiness", g.ready()))
	a.public(g.own("GET /v1/models", g.listModels()))
	a.public(g.own("GET /v1/models/{model}", g.showModel()))
	a.public(g.own("GET /engine_metrics", g.engineMetrics()))
	a.public(g.own("GET /loads", g.listLoads()))
	a.control(g.admin("GET /get_loads", g.listLoads()))
	a.public(g.proxied("GET /health_generate", ""))
	a.public(g.proxied("GET /get_model_info", "/model_info"))
	a.public(g.proxied("GET /get_server_info", "/server_info"))

	a.control(g.admin("POST /explain", g.explain()))
	a.control(g.admin("POST /flush_cache", g.flushCache()))
	a.control(g.admin("POST /start_profile", g.profile("/start_profile", "started")))
	a.control(g.admin("POST /stop_profile", g.profile("/stop_profile", "stopped")))
	a.control(g.admin("GET /workers", g.listWorkers()))
	a.control(g.admin("POST /workers", g.addWorker()))
	a.control(g.admin("GET /workers/{worker_id}", g.showWorker()))
	a.control(g.admin("PATCH /workers/{worker_id}", g.updateWorker()))
	a.control(g.admin("PUT /workers/{worker_id}", g.replaceWorker()))
	a.control(g.admin("DELETE /workers/{worker_id}", g.removeWorker()))
	a.control(g.admin("POST /workers/{worker_id}/breaker/reset", g.resetBreaker()))

	a.public(g.own(unmatched, unknownURL()))
	g.tiers = a.tiers
	return a.chains, a.err
}

// assembly gathers chains until the first that cannot be assembled, or has not the guard of its tier.
type assembly struct {
	traced func(*pipeline.Chain) *pipeline.Chain
	guards *guards
	tiers  map[string]tier // by the route
	chains []*pipeline.Chain
	err    error
}

func (a *assembly) public(c *pipeline.Chain, err error)  { a.add(public, c, err) }
func (a *assembly) serving(c *pipeline.Chain, err error) { a.add(serving, c, err) }
func (a *assembly) control(c *pipeline.Chain, err error) { a.add(control, c, err) }

func (a *assembly) add(t tier, c *pipeline.Chain, err error) {
	if err == nil {
		c, err = a.guards.fit(t, c)
	}
	if err != nil && a.err == nil {
		a.err = err
	}
	if a.err == nil {
		a.tiers[c.Route()] = t
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
