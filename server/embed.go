package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Gateway is smg inside another program: the routes of `smg launch` as an [http.Handler] of somebody's server. It opens no listener,
// heeds no signal and sets nothing that concerns the process. Its methods may be called at once.
//
// The program's server decides about listening, TLS and time limits, and the program about the end: [Gateway.Drain] if load
// balancers need time to notice, then its server's Shutdown, then [Gateway.Close].
type Gateway struct {
	gateway *gateway
	closing sync.Once

	mu     sync.Mutex // held while chains change
	chains []*pipeline.Chain
	front  atomic.Pointer[http.Handler]
}

// New makes a gateway and starts what its chains use: workers are contacted from now on, and requests that come before one is ready
// are answered 503. Of cfg what concerns listeners, log output and the process is ignored (Host, Port, HealthCheckPort, Prometheus
// host and port, TLSCertPath, TLSKeyPath, HeaderReadTimeout, IdleConnectionTimeout, ShutdownGracePeriod, LogConfig, RuntimeConfig).
// cfg is copied; what its lists hold must not be changed. A nil log is the default logger.
//
// The error is a [*ConfigError], or names a policy that there is not. Whoever gets a gateway calls Close.
func New(cfg *Config, log *slog.Logger) (*Gateway, error) {
	own := embedded(cfg)
	if found := own.Validate(); len(found) > 0 {
		return nil, &ConfigError{found}
	}
	if log == nil {
		log = slog.Default()
	}
	metrics := telemetry.NewMetrics(telemetry.Options{DurationBuckets: own.DurationBuckets, Version: Version, Commit: commit()})
	inner, err := newGateway(own, log, metrics)
	if err != nil {
		return nil, err
	}
	g := &Gateway{gateway: inner}
	chains, err := inner.chains()
	if err == nil {
		err = inner.open()
	}
	if err == nil {
		err = g.Use(chains...)
	}
	if err != nil {
		g.Close(context.Background())
		return nil, err
	}
	return g, nil
}

// embedded is the configuration with defaults in the place of what a gateway without listeners ignores, so that no mistake there
// keeps it from starting.
func embedded(cfg *Config) *Config {
	own, standard := *cfg, Default()
	own.Host, own.Port, own.HealthCheckPort = standard.Host, standard.Port, nil
	own.PrometheusHost, own.PrometheusPort = standard.PrometheusHost, standard.PrometheusPort
	own.HeaderReadTimeout, own.IdleConnectionTimeout = standard.HeaderReadTimeout, standard.IdleConnectionTimeout
	own.ShutdownGracePeriod = standard.ShutdownGracePeriod
	own.TLSCertPath, own.TLSKeyPath = "", ""
	own.LogConfig, own.RuntimeConfig = standard.LogConfig, standard.RuntimeConfig
	return &own
}

// ConfigError says what is wrong with a configuration: all of it, in the order of the flags.
type ConfigError struct{ Violations []Violation }

// Error is the violations, a line for each.
func (e *ConfigError) Error() string {
	lines := make([]string, 0, len(e.Violations))
	for _, v := range e.Violations {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}

// Handler serves all routes of the gateway. It may be mounted below a path with [http.StripPrefix]: workers are sent the path that
// is left.
//
// It asks of the server around it what [net/http/httputil.ReverseProxy] does: a response that breaks is cut by a panic with
// [http.ErrAbortHandler], which middleware lets pass; a wrapped ResponseWriter can Flush, or has Unwrap, else events
// come late; and the end of the request's context is the client's leaving, which stops the worker's work.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*g.front.Load()).ServeHTTP(w, r) })
}

// Metrics answers scrapes, GET and HEAD, on whatever path it is mounted. It is not among the routes of Handler: those are for
// clients.
func (g *Gateway) Metrics() http.Handler {
	scrape := telemetry.MetricsHandler(g.gateway.metrics, telemetry.WithTarget(g.gateway.log, "smg::telemetry"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here, url := *r, *r.URL
		url.Path, url.RawPath, here.URL = "/metrics", "", &url
		scrape.ServeHTTP(w, &here)
	})
}

// Ready tells what GET /readiness does: some worker is healthy, everything that chains use is there, and Drain was not called.
func (g *Gateway) Ready() bool {
	status, _ := g.gateway.readiness()
	return status == http.StatusOK
}

// Drain ends readiness for good; requests are served as before. A program calls it some seconds before it stops listening.
func (g *Gateway) Drain() { g.gateway.draining.Store(true) }

// Close stops what New has started, and waits for it. Requests must be over: it comes behind the server's Shutdown. Work that
// outlives responses has until ctx ends. Closing again does nothing.
func (g *Gateway) Close(ctx context.Context) {
	g.closing.Do(func() {
		g.Drain()
		g.gateway.close(ctx)
	})
}

// Chain is the chain that serves a route, such as "POST /v1/chat/completions": a starting point for another one, see
// [pipeline.Chain.Replace]. The error lists the routes that there are.
func (g *Gateway) Chain(route string) (*pipeline.Chain, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var routes []string
	for _, c := range g.chains {
		if c.Route() == route {
			return c, nil
		}
		routes = append(routes, c.Route())
	}
	return nil, fmt.Errorf("there is no route %q; the gateway has %s", route, strings.Join(routes, ", "))
}

// Traced gives a chain whose requests the gateway records as those of its own routes: what each stage took, and spans if the
// configuration asks for them. Chains made of the gateway's own are traced already.
func (g *Gateway) Traced(c *pipeline.Chain) *pipeline.Chain { return g.gateway.traced(c) }

// Use makes the gateway serve these chains too: one takes the place of the chain of its route, others are routes of their own, with
// the rules of [Handler]. The switch is one step; requests that are on their way finish on their old chains. An error leaves
// everything as it was.
func (g *Gateway) Use(chains ...*pipeline.Chain) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.chains)
	for _, c := range chains {
		at := slices.IndexFunc(g.chains, func(was *pipeline.Chain) bool { return c != nil && was.Route() == c.Route() })
		if at >= 0 && all[at] == g.chains[at] {
			all[at] = c
		} else {
			all = append(all, c) // also the second of one route, which the runtime refuses
		}
	}
	routes, err := routesOf(all)
	if err != nil {
		return err
	}
	if err := g.gateway.use(all); err != nil {
		return err
	}
	front := newFront(g.gateway.runtime, routes, g.gateway.cfg.CORSAllowedOrigins)
	g.chains = all
	g.front.Store(&front)
	return nil
}
