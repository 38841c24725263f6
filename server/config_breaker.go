package server

import "math"

// BreakerConfig says when a worker's circuit breaker opens and closes.
type BreakerConfig struct {
	CBFailureThreshold int     `name:"cb-failure-threshold" default:"10" help:"Failures in a row that open a worker's breaker (at least 1)."`
	CBSuccessThreshold int     `name:"cb-success-threshold" default:"3" help:"Successes that close a half-open breaker (at least 1); also the trials it allows at a time."`
	CBTimeout          Seconds `name:"cb-timeout-duration-secs" default:"60" help:"Seconds that a breaker stays open before it allows trials (at least 1)."`
	CBWindow           Seconds `name:"cb-window-duration-secs" default:"120" help:"Accepted and checked for compatibility (at least 1); a breaker counts failures in a row, without a window."`
	DisableBreaker     bool    `name:"disable-circuit-breaker" help:"Never open a breaker; outcomes are still recorded."`
}

func defaultBreaker() BreakerConfig {
	return BreakerConfig{CBFailureThreshold: 10, CBSuccessThreshold: 3, CBTimeout: 60, CBWindow: 120}
}

// FailureThreshold is the number of failures in a row that opens a breaker; out of reach if breakers are disabled.
func (c *BreakerConfig) FailureThreshold() int {
	if c.DisableBreaker {
		return math.MaxInt
	}
	return c.CBFailureThreshold
}

func (c *BreakerConfig) check(found *violations) {
	found.whole("--cb-failure-threshold", int64(c.CBFailureThreshold), 1, math.MaxInt32)
	found.whole("--cb-success-threshold", int64(c.CBSuccessThreshold), 1, math.MaxInt32)
	found.seconds("--cb-timeout-duration-secs", c.CBTimeout, 1)
	found.seconds("--cb-window-duration-secs", c.CBWindow, 1)
}
