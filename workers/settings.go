package workers

import (
	"slices"
	"time"
)

// Settings are what a gateway decides for all its workers, before a worker's own spec overrides it.
type Settings struct {
	Breaker     BreakerSettings
	Statuses    StatusSettings
	Health      HealthSettings
	HTTPPool    HTTPPoolSettings
	Overload    OverloadSettings
	DrainSettle time.Duration // how long a worker drains before it is removed, 0 or more
}

// DefaultSettings are those of a gateway without flags.
func DefaultSettings() Settings {
	return Settings{
		Breaker: DefaultBreakerSettings(), Statuses: DefaultStatusSettings(), Health: DefaultHealthSettings(),
		HTTPPool: DefaultHTTPPoolSettings(), DrainSettle: 5 * time.Second,
	}
}

// HealthSettings say how a worker is probed.
type HealthSettings struct {
	Interval         time.Duration // from launch to launch, above 0
	Timeout          time.Duration // of one probe, above 0
	FailureThreshold int           // failures in a row that take a ready worker out, at least 1
	SuccessThreshold int           // successes in a row that bring it back, at least 1
	Endpoint         string        // path on the worker, with a slash in front; the same for all workers
	Disabled         bool          // never probed, ready from its registration on
}

// DefaultHealthSettings are those of a gateway without --health-* flags.
func DefaultHealthSettings() HealthSettings {
	return HealthSettings{Interval: 60 * time.Second, Timeout: 5 * time.Second, FailureThreshold: 3, SuccessThreshold: 2, Endpoint: "/health"}
}

// HTTPPoolSettings say how requests reach a worker over HTTP.
type HTTPPoolSettings struct {
	HTTP2          bool          // speak HTTP/2 only, without TLS as with it
	MaxIdle        int           // connections kept idle, 0 or more
	IdleTimeout    time.Duration // how long they are kept; 0 keeps them for ever
	RequestTimeout time.Duration // of one attempt, streamed body included, above 0
	ConnectTimeout time.Duration // above 0
}

// DefaultHTTPPoolSettings are those of a gateway without flags.
func DefaultHTTPPoolSettings() HTTPPoolSettings {
	return HTTPPoolSettings{MaxIdle: 500, IdleTimeout: 3 * time.Second, RequestTimeout: 1800 * time.Second, ConnectTimeout: 10 * time.Second}
}

// OverloadSettings are the ceilings above which a worker gets no more requests.
type OverloadSettings struct {
	WaitingRequests int64   // overloaded from so many waiting requests on; 0 is no ceiling
	TokenUsage      float64 // overloaded from this share of its KV cache on, up to 1; 0 is no ceiling
}

// StatusSettings say what a worker's answer means for its circuit breaker.
type StatusSettings struct {
	Retryable []int // a failure
	Capacity  []int // neither failure nor success, whatever the other list says
}

// DefaultStatusSettings are those of a worker whose spec has no lists.
func DefaultStatusSettings() StatusSettings {
	return StatusSettings{Retryable: []int{408, 429, 500, 502, 503, 504}, Capacity: []int{429}}
}

// Outcome is what an answer means for a worker's circuit breaker.
type Outcome uint8

// The outcomes.
const (
	Uncounted Outcome = iota // says nothing about the worker's health
	Succeeded                // speaks for it
	Faulted                  // speaks against it
)

// Outcome classifies the status of an answer.
func (s *StatusSettings) Outcome(status int) Outcome {
	switch {
	case status < 400: // nearly all answers; both lists hold errors
		return Succeeded
	case slices.Contains(s.Capacity, status):
		return Uncounted
	case slices.Contains(s.Retryable, status):
		return Faulted
	}
	return Succeeded
}
