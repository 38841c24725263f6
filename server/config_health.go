package server

import (
	"math"
	"net/url"
	"strings"
)

// HealthConfig says how workers are probed, and how they leave.
type HealthConfig struct {
	HealthFailureThreshold int     `name:"health-failure-threshold" default:"3" help:"Failed probes in a row that make a worker unhealthy (at least 1)."`
	HealthSuccessThreshold int     `name:"health-success-threshold" default:"2" help:"Good probes in a row that make it healthy again (at least 1)."`
	HealthCheckTimeout     Seconds `name:"health-check-timeout-secs" default:"5" help:"Limit in seconds of one probe (at least 1)."`
	HealthCheckInterval    Seconds `name:"health-check-interval-secs" default:"60" help:"Seconds between probes of a worker (at least 1)."`
	HealthCheckEndpoint    string  `name:"health-check-endpoint" default:"/health" help:"Path that is probed; begins with a slash."`
	DisableHealthCheck     bool    `name:"disable-health-check" help:"Do not probe workers once they are registered."`
	DrainSettle            Seconds `name:"drain-settle-secs" default:"5" help:"Seconds that a worker drains before it is removed. 0: removed at once."`
}

func defaultHealth() HealthConfig {
	return HealthConfig{
		HealthFailureThreshold: 3,
		HealthSuccessThreshold: 2,
		HealthCheckTimeout:     5,
		HealthCheckInterval:    60,
		HealthCheckEndpoint:    "/health",
		DrainSettle:            5,
	}
}

func (c *HealthConfig) check(found *violations) {
	found.whole("--health-failure-threshold", int64(c.HealthFailureThreshold), 1, math.MaxInt32)
	found.whole("--health-success-threshold", int64(c.HealthSuccessThreshold), 1, math.MaxInt32)
	found.seconds("--health-check-timeout-secs", c.HealthCheckTimeout, 1)
	found.seconds("--health-check-interval-secs", c.HealthCheckInterval, 1)
	if !validPath(c.HealthCheckEndpoint) {
		found.add("--health-check-endpoint", c.HealthCheckEndpoint, "must be a path that begins with /")
	}
	found.seconds("--drain-settle-secs", c.DrainSettle, 0)
}

// validPath accepts what can stand in a request line as it is, a query included.
func validPath(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \t#") {
		return false
	}
	_, err := url.ParseRequestURI(path)
	return err == nil
}
