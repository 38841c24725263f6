package server

import "math"

// RetryConfig says how often, and how soon, a failed attempt is repeated.
type RetryConfig struct {
	RetryMaxRetries        int          `name:"retry-max-retries" default:"5" help:"Attempts in all, the first included (at least 1); 1 is no retry."`
	RetryInitialBackoff    Milliseconds `name:"retry-initial-backoff-ms" default:"50" help:"Wait in milliseconds before the second attempt (at least 1)."`
	RetryMaxBackoff        Milliseconds `name:"retry-max-backoff-ms" default:"30000" help:"Longest wait in milliseconds; not below the initial one."`
	RetryBackoffMultiplier float64      `name:"retry-backoff-multiplier" default:"1.5" help:"Growth of the wait from one attempt to the next (at least 1.0)."`
	RetryJitterFactor      float64      `name:"retry-jitter-factor" default:"0.2" help:"Share of the wait, 0.0 to 1.0, by which chance makes it longer or shorter."`
	DisableRetries         bool         `name:"disable-retries" help:"One attempt for each request."`
}

func defaultRetry() RetryConfig {
	return RetryConfig{
		RetryMaxRetries:        5,
		RetryInitialBackoff:    50,
		RetryMaxBackoff:        30000,
		RetryBackoffMultiplier: 1.5,
		RetryJitterFactor:      0.2,
	}
}

// Attempts is the number of attempts that a request gets, the first included.
func (c *RetryConfig) Attempts() int {
	if c.DisableRetries {
		return 1
	}
	return c.RetryMaxRetries
}

// check also looks at values that --disable-retries makes idle: they would fail on the day it is taken away.
func (c *RetryConfig) check(found *violations) {
	found.whole("--retry-max-retries", int64(c.RetryMaxRetries), 1, math.MaxInt32)
	found.whole("--retry-initial-backoff-ms", int64(c.RetryInitialBackoff), 1, maxSeconds)
	found.whole("--retry-max-backoff-ms", int64(c.RetryMaxBackoff), 1, maxSeconds)
	if c.RetryMaxBackoff >= 1 && c.RetryMaxBackoff < c.RetryInitialBackoff {
		found.add("--retry-max-backoff-ms", c.RetryMaxBackoff, "must not be below --retry-initial-backoff-ms (%d)", c.RetryInitialBackoff)
	}
	found.fraction("--retry-backoff-multiplier", c.RetryBackoffMultiplier, 1, math.MaxFloat64)
	found.fraction("--retry-jitter-factor", c.RetryJitterFactor, 0, 1)
}
