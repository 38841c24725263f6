package server

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// gateway is what the routes share, made once.
type gateway struct {
	cfg      *Config
	log      *slog.Logger
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing // nil: off
	recorder *stages.Recorder   // of no file without --record
	guards   *guards
	tiers    map[string]tier // of the routes

	registry  *workers.Registry
	enroller  *workers.Enroller
	startup   pipeline.Dependency
	health    pipeline.Dependency
	discovery pipeline.Dependency // nil: all workers are named
	loads     *workers.LoadMonitor
	policies  *policy.Set
	demand    *pipeline.Demand

	admission *stages.Limiter
	buffering *stages.Buffering
	bodies    stages.BodySettings
	models    *stages.Models
	retries   stages.RetrySettings
	transport *forward.Transport
	workerTLS workers.TLS

	runtime  *pipeline.Runtime
	served   atomic.Pointer[[]*pipeline.Chain] // what runtime serves, of all routes
	draining atomic.Bool
}

// newGateway makes the parts. Nothing runs, listens or is contacted yet.
func newGateway(cfg *Config, log *slog.Logger, metrics *telemetry.Metrics) (*gateway, error) {
	g := &gateway{
		cfg: cfg, log: log, metrics: metrics,
		registry: workers.NewRegistry(), demand: &pipeline.Demand{},
		runtime: pipeline.NewRuntime(log),
	}
	g.recording()
	var err error
	g.policies, err = policy.NewSet(cfg.Policy, policySettings(cfg, log, metrics), g.demand, telemetry.WithTarget(log, "smg::policies::registry"))
	if err != nil {
		return nil, err
	}
	if g.workerTLS, err = workerTLS(cfg, telemetry.WithTarget(log, "smg::worker")); err != nil {
		return nil, err
	}
	if g.guards, err = newGuards(cfg, log); err != nil {
		return nil, err
	}
	if g.tracing, err = newTracing(cfg, log, metrics); err != nil { // last of what may fail: it runs from now on
		return nil, err
	}
	g.registry.Listen(&series{metrics: metrics.Workers, log: telemetry.WithTarget(log, "smg::worker")})
	g.registry.Listen(g.policies)
	g.transport = forward.NewTransport(forward.Options{
		TLS: g.workerTLS, OnResend: metrics.Router.SendRetries("http").Inc, OnConnection: metrics.Upstream.Connection,
	})
	g.registry.Listen(idleConnections{transport: g.transport})
	for alias, canonical := range cfg.Aliases() {
		g.registry.Alias(alias, canonical)
	}
	metrics.Workers.OnShed(newShedLog(telemetry.WithTarget(log, "smg::worker")).note)
	metrics.Workers.SetSource(samples(g.registry, g.policies))
	metrics.SetState(g.state)
	g.enrolment()
	g.discovering()
	g.monitoring()
	g.stages()
	return g, nil
}

// enrolment makes what brings workers in and keeps watch on them.
func (g *gateway) enrolment() {
	log := telemetry.WithTarget(g.log, "smg::worker")
	startup := workers.Startup{
		Delay: g.cfg.StartupDelay.Duration(), Interval: g.cfg.StartupCheckInterval.Duration(), Timeout: g.cfg.StartupTimeout.Duration(),
	}
	g.enroller = workers.NewEnroller(g.registry, workerSettings(g.cfg), startup, log,
		workers.WithTLS(g.workerTLS), workers.WithJobs(g.cfg.Jobs()),
		workers.WithJobLog(telemetry.WithTarget(g.log, "smg::jobs")), workers.WithRanks(g.cfg.DPAware), workers.WithMetrics(g.metrics.Fleet))
	specs := make([]workers.Spec, 0, len(g.cfg.WorkerURLs))
	for _, url := range g.cfg.StartupURLs() {
		spec := workers.NewSpec(url)
		spec.APIKey = g.cfg.workerKey()
		specs = append(specs, spec)
	}
	g.startup = g.enroller.Startup(specs)
	health := workers.NewHealthLoop(g.registry, log)
	health.UseTLS(g.workerTLS)
	health.OnProbe(func(w *workers.Worker, ok bool) { g.metrics.Workers.HealthChecks(w.Type().String(), ok).Inc() })
	if g.cfg.RemovesUnhealthy(g.cfg.Discovers()) {
		health.OnFailed(g.enroller.Retire)
	}
	g.health = health
}

// stages makes what the stages of several routes share.
func (g *gateway) stages() {
	cfg := g.cfg
	g.admission = stages.NewLimiter(stages.AdmissionSettings{
		Requests: cfg.AdmissionLimit(), Queue: cfg.QueueSize, Wait: cfg.QueueTimeout.Duration(), PerSecond: cfg.TokensPerSecond,
	}, g.metrics.Admission)
	g.buffering = &stages.Buffering{
		Registry: g.registry, Demand: g.demand, Metrics: g.metrics,
		ManyModels: cfg.IGW(), Sticky: cfg.RoutingKeyOverride, Retries: cfg.Attempts() > 1, RetriedBytes: cfg.MaxBufferedRequestBytes,
	}
	g.bodies = stages.BodySettings{MaxBytes: cfg.MaxPayloadSize, Stall: cfg.BodyStallTimeout.Duration()}
	g.models = &stages.Models{Registry: g.registry, Required: cfg.IGW()}
	g.retries = stages.RetrySettings{
		MaxAttempts: cfg.Attempts(), InitialBackoff: cfg.RetryInitialBackoff.Duration(), MaxBackoff: cfg.RetryMaxBackoff.Duration(),
		Multiplier: cfg.RetryBackoffMultiplier, Jitter: cfg.RetryJitterFactor, Deadline: cfg.RequestTimeout.Duration(),
	}
	g.retries.ForModel = retriesOf(g.registry, g.retries)
}

// idleConnections closes the idle connections to a worker that leaves.
type idleConnections struct {
	workers.Deaf
	transport *forward.Transport
}

func (c idleConnections) WorkerRemoved(w *workers.Worker) { c.transport.Forget(w.Endpoint().Dial) }

// forwarding are the settings of the forward stage for a kind of requests.
func (g *gateway) forwarding(kind stages.Kind) forward.Settings {
	return stages.Forwarding(forward.Settings{
		MaxAnswer: g.cfg.MaxPayloadSize, MaxUpload: g.cfg.MaxPayloadSize,
		Keepalive: g.cfg.SSEKeepalive.Duration(), Metrics: g.metrics,
	}, kind)
}

// routingKey reads the key of a request; under sticky sessions, from its body too.
func (g *gateway) routingKey(kind stages.Kind) pipeline.Stage {
	if g.cfg.RoutingKeyOverride {
		return stages.SessionKey(g.cfg.RoutingKeyHeaders, kind)
	}
	return stages.RoutingKey(g.cfg.RoutingKeyHeaders)
}

// policySettings are the operator's, for the default policy and for those of models that a label gives the same one.
func policySettings(cfg *Config, log *slog.Logger, metrics *telemetry.Metrics) policy.Settings {
	s := policy.BuiltIn(policy.Shared{Metrics: metrics.Policies, Log: log})
	s.CacheThreshold, s.BalanceAbs, s.BalanceRel = cfg.CacheThreshold, cfg.BalanceAbs, cfg.BalanceRel
	s.BucketRel = cfg.BalanceRel
	s.BalanceTokenUsage, s.OverloadTokenUsage = cfg.BalanceTokenUsage, cfg.OverloadTokenUsage
	s.OverlapDecay, s.SelectionTemperature, s.CountHeld = cfg.OverlapDecay, cfg.SelectionTemperature, cfg.CountHeld
	s.EvictionInterval, s.MaxTreeSize = cfg.EvictionInterval.Duration(), cfg.MaxTreeSize
	s.IndexMemory, s.BlockSize = cfg.IndexMemory, cfg.BlockSize
	s.PrefixTokens, s.PrefixLoadFactor, s.PrefixBalanceAbs = cfg.PrefixTokens, cfg.PrefixLoadFactor, cfg.PrefixBalanceAbs
	s.Boundaries = cfg.CacheBoundaries
	s.KVPressureWeight, s.DefaultThroughput = cfg.KVPressureWeight, cfg.DefaultThroughput
	s.MeanPrefillTokens, s.MaxWaiting = cfg.MeanPrefillTokens, cfg.MaxWaiting
	s.Sticky, s.Assignment, s.MaxIdle = cfg.RoutingKeyOverride, cfg.Assignment(), cfg.MaxIdle.Duration()
	s.RoutingKeyNames = pipeline.CanonicalNames(cfg.RoutingKeyHeaders)
	return s
}

func workerSettings(cfg *Config) workers.Settings {
	s := workers.DefaultSettings()
	s.Breaker = workers.BreakerSettings{
		FailureThreshold: uint32(min(cfg.FailureThreshold(), math.MaxUint32)), SuccessThreshold: uint32(cfg.CBSuccessThreshold),
		Timeout: cfg.CBTimeout.Duration(), Disabled: cfg.DisableBreaker,
	}
	s.Health = workers.HealthSettings{
		Interval: cfg.HealthCheckInterval.Duration(), Timeout: cfg.HealthCheckTimeout.Duration(),
		FailureThreshold: cfg.HealthFailureThreshold, SuccessThreshold: cfg.HealthSuccessThreshold,
		Endpoint: cfg.HealthCheckEndpoint, Disabled: cfg.DisableHealthCheck,
	}
	s.Overload = cfg.Ceilings()
	s.HTTPPool.IdleTimeout = cfg.UpstreamIdleTimeout.Duration()
	s.HTTPPool.RequestTimeout = cfg.RequestTimeout.Duration()
	s.DrainSettle = cfg.DrainSettle.Duration()
	return s
}

// open does what a gateway that cannot do it must not serve without.
func (g *gateway) open() error {
	if err := g.openDiscovery(); err != nil {
		return err
	}
	return g.openRecord()
}

// serve makes the chains the ones that requests go through, and starts what they use.
func (g *gateway) serve() (routes []string, err error) {
	chains, err := g.chains()
	if err != nil {
		return nil, err
	}
	for _, c := range chains {
		if c.Route() != unmatched {
			routes = append(routes, c.Route())
		}
	}
	return routes, g.use(chains)
}

// use makes these chains the ones that are served.
func (g *gateway) use(chains []*pipeline.Chain) error {
	if err := g.runtime.Serve(chains...); err != nil {
		return err
	}
	g.served.Store(&chains)
	return nil
}

// handler is the gateway as a web server's handler.
func (g *gateway) handler() (http.Handler, error) {
	routes, err := g.serve()
	if err != nil {
		return nil, err
	}
	return newFront(g.runtime, routes, g.cfg.CORSAllowedOrigins), nil
}

// close stops everything that serve has started. Requests are over by then, or will be cut.
func (g *gateway) close(ctx context.Context) {
	g.runtime.Stop(ctx)
	g.enroller.Close()
	g.transport.CloseIdleConnections()
	if err := g.recorder.Close(); err != nil {
		g.log.Warn("the file of --record could not be closed", "error", err)
	}
	// The grace period of requests is not that of their spans: those of the last ones have just ended.
	if err := g.tracing.Close(context.WithoutCancel(ctx)); err != nil {
		g.log.Warn("the last spans could not be sent", "error", err)
	}
}

// newTracing makes the tracing that the configuration asks for; nil if it asks for none.
func newTracing(cfg *Config, log *slog.Logger, metrics *telemetry.Metrics) (*telemetry.Tracing, error) {
	if !cfg.EnableTrace {
		return nil, nil
	}
	return telemetry.NewTracing(telemetry.TracingOptions{
		Endpoint: cfg.OTLPTracesEndpoint, Ratio: cfg.TraceSampleRatio, Version: Version,
		Metrics: metrics.Traces, Log: telemetry.WithTarget(log, "smg::telemetry"),
	})
}
