package server

import (
	"math"
	"runtime"
)

// AdmissionConfig says how many inference requests are let in at once, and how many more may wait.
type AdmissionConfig struct {
	MaxConcurrentRequests int     `name:"max-concurrent-requests" default:"-1" help:"Inference requests that are served at once; one counts until its response body has ended. -1: 1024 for each core, and at least 4096. 0: no limit."`
	QueueSize             int     `name:"queue-size" default:"100" help:"Requests that may wait when all are taken, first come, first served; more are answered 429. 0: none waits."`
	QueueTimeout          Seconds `name:"queue-timeout-secs" default:"60" help:"Seconds (at least 1 with a queue) that a request may wait; then it is answered 503."`
	TokensPerSecond       int     `name:"rate-limit-tokens-per-second" default:"0" help:"Admissions a second beside those of requests that end: then --max-concurrent-requests bounds a burst, not how many are served at once. 0: none."`
}

func defaultAdmission() AdmissionConfig {
	return AdmissionConfig{MaxConcurrentRequests: -1, QueueSize: 100, QueueTimeout: 60}
}

// The default limit, by cores.
const (
	admittedPerCore = 1024
	admittedAtLeast = 4096
)

// AdmissionLimit is how many requests are let in at once; 0 is no limit.
func (c *AdmissionConfig) AdmissionLimit() int {
	if c.MaxConcurrentRequests >= 0 {
		return c.MaxConcurrentRequests
	}
	return max(admittedAtLeast, admittedPerCore*runtime.GOMAXPROCS(0))
}

func (c *AdmissionConfig) check(found *violations) {
	found.whole("--max-concurrent-requests", int64(c.MaxConcurrentRequests), -1, math.MaxInt32)
	found.whole("--queue-size", int64(c.QueueSize), 0, math.MaxInt32)
	least := int64(0)
	if c.QueueSize > 0 {
		least = 1
	}
	found.seconds("--queue-timeout-secs", c.QueueTimeout, least)
	found.whole("--rate-limit-tokens-per-second", int64(c.TokensPerSecond), 0, math.MaxInt32)
	if c.TokensPerSecond > 0 && c.MaxConcurrentRequests == 0 {
		found.add("--rate-limit-tokens-per-second", c.TokensPerSecond, "needs --max-concurrent-requests other than 0, which is the largest burst")
	}
}
