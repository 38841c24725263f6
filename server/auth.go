package server

import (
	"fmt"
	"log/slog"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/telemetry"
)

// tier is who may use a route.
type tier uint8

const (
	public  tier = iota + 1 // everybody
	serving                 // callers, with a key of the inference routes
	control                 // operators
)

// String is how the matrix of routes and the log call a tier.
func (t tier) String() string {
	return [...]string{public: "public", serving: "serving", control: "control"}[t]
}

// guards are what stands before the routes of each tier, made once.
type guards struct {
	keys      *stages.APIKeys   // of callers; none: the inference routes are open
	operators *stages.Operators // see open
	open      bool              // there is no credential at all, so everybody is an operator
	dedicated bool              // operators have credentials of their own
	header    string            // that names a tenant; "" for none
	tenants   bool              // somebody wants to know the tenant of a request
	audit     *auditLog
}

// newGuards makes the guards that a valid configuration asks for.
func newGuards(cfg *Config, log *slog.Logger) (*guards, error) {
	ignore := func(string, int, string) {} // it was checked before
	g := &guards{keys: cfg.servingKeys(ignore), audit: newAuditLog(cfg, log)}
	g.operators = cfg.controlKeys(g.keys, ignore)
	settings, tokens := cfg.settings()
	if tokens {
		taken, err := stages.NewJWTs(settings, telemetry.WithTarget(log, "smg::auth"))
		if err != nil {
			return nil, fmt.Errorf("--jwt-issuer: %w", err)
		}
		g.operators.TakeTokens(taken)
	}
	if key := cfg.workerKey(); key != "" {
		if err := g.operators.AddShared(key); err != nil {
			return nil, fmt.Errorf("--api-key: %w", err)
		}
	}
	g.dedicated = tokens || len(cfg.ControlPlaneAPIKeys) > 0
	g.open = !g.dedicated && g.keys.Len() == 0
	if cfg.TrustTenantHeader {
		g.header = cfg.TenantHeaderName
	}
	g.tenants = g.keys.Len() > 0 || cfg.TrustTenantHeader || cfg.EnableTrace
	return g, nil
}

// own tells which tokens of clients are the gateway's own to check, on routes that ask for none: with keys of callers whatever
// they send, else those of operators.
func (g *guards) own() func(token string) bool {
	if g.keys.Len() > 0 {
		return nil
	}
	return g.operators.Owns
}

// guardOf is the stage that the routes of each tier have, and no others.
var guardOf = map[tier]string{serving: "auth", control: "control_auth"}

// fit checks that a chain has the guard of its tier, and takes out what is off.
func (g *guards) fit(t tier, c *pipeline.Chain) (*pipeline.Chain, error) {
	for other, guard := range guardOf {
		if hasStage(c, guard) != (other == t) {
			return nil, fmt.Errorf("%s is a %s route: stage %s belongs to %s routes, and to all of them", c.Route(), t, guard, other)
		}
	}
	off := map[string]bool{
		"auth":         g.keys.Len() == 0,
		"tenant":       !g.tenants,
		"withhold":     g.open || t == serving && g.keys.Len() > 0,
		"control_auth": g.open,
		"audit":        g.audit == nil,
	}
	var err error
	for _, s := range c.Stages() {
		if off[s.Name()] && err == nil {
			c, err = c.Without(s.Name())
		}
	}
	return c, err
}
