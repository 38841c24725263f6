package workers

import (
	"fmt"
	"slices"
	"time"
)

// HealthSpec overrides how the gateway probes and drains one worker; what is nil stays with the gateway's settings.
type HealthSpec struct {
	TimeoutSecs        *uint32 `json:"timeout_secs,omitempty"`        // at least 1
	CheckIntervalSecs  *uint32 `json:"check_interval_secs,omitempty"` // 0 is the gateway's
	SuccessThreshold   *uint32 `json:"success_threshold,omitempty"`   // at least 1
	FailureThreshold   *uint32 `json:"failure_threshold,omitempty"`   // at least 1
	DisableHealthCheck *bool   `json:"disable_health_check,omitempty"`
	DrainSettleSecs    *uint32 `json:"drain_settle_secs,omitempty"` // 0 does not wait
}

func healthOf(o *object) *HealthSpec {
	if o == nil {
		return nil
	}
	h := &HealthSpec{
		TimeoutSecs: o.count("timeout_secs", 1), CheckIntervalSecs: o.count("check_interval_secs", 0),
		SuccessThreshold: o.count("success_threshold", 1), FailureThreshold: o.count("failure_threshold", 1),
		DisableHealthCheck: o.flag("disable_health_check"), DrainSettleSecs: o.count("drain_settle_secs", 0),
	}
	return given(o, h)
}

// HTTPPoolSpec overrides how requests reach one worker.
type HTTPPoolSpec struct {
	HTTP2               *bool   `json:"http2,omitempty"`
	PoolMaxIdlePerHost  *uint32 `json:"pool_max_idle_per_host,omitempty"`
	PoolIdleTimeoutSecs *uint32 `json:"pool_idle_timeout_secs,omitempty"` // 0 keeps connections for ever
	TimeoutSecs         *uint32 `json:"timeout_secs,omitempty"`           // at least 1
	ConnectTimeoutSecs  *uint32 `json:"connect_timeout_secs,omitempty"`   // at least 1
}

func httpPoolOf(o *object) *HTTPPoolSpec {
	if o == nil {
		return nil
	}
	p := &HTTPPoolSpec{
		HTTP2: o.flag("http2"), PoolMaxIdlePerHost: o.count("pool_max_idle_per_host", 0),
		PoolIdleTimeoutSecs: o.count("pool_idle_timeout_secs", 0), TimeoutSecs: o.count("timeout_secs", 1),
		ConnectTimeoutSecs: o.count("connect_timeout_secs", 1),
	}
	return given(o, p)
}

// ResilienceSpec overrides one worker's circuit breaker, and the retries of its model. A list that is set replaces its default.
type ResilienceSpec struct {
	CBFailureThreshold    *uint32  `json:"cb_failure_threshold,omitempty"` // at least 1
	CBSuccessThreshold    *uint32  `json:"cb_success_threshold,omitempty"` // at least 1
	CBTimeoutSecs         *uint32  `json:"cb_timeout_secs,omitempty"`      // at least 1
	CBWindowSecs          *uint32  `json:"cb_window_secs,omitempty"`       // accepted, unused
	DisableCircuitBreaker *bool    `json:"disable_circuit_breaker,omitempty"`
	RetryableStatusCodes  *[]int   `json:"retryable_status_codes,omitempty"` // 400 to 599
	CapacityStatusCodes   *[]int   `json:"capacity_status_codes,omitempty"`  // 400 to 599
	MaxRetries            *uint32  `json:"max_retries,omitempty"`
	InitialBackoffMs      *uint32  `json:"initial_backoff_ms,omitempty"`
	MaxBackoffMs          *uint32  `json:"max_backoff_ms,omitempty"`
	BackoffMultiplier     *float64 `json:"backoff_multiplier,omitempty"` // at least 1
	JitterFactor          *float64 `json:"jitter_factor,omitempty"`      // 0 to 1
	DisableRetry          *bool    `json:"disable_retry,omitempty"`
}

func resilienceOf(o *object) *ResilienceSpec {
	if o == nil {
		return nil
	}
	statuses := func(name string) *[]int {
		return optional(o, name, "a list of status codes from 400 to 599", func(codes []int) bool {
			return !slices.ContainsFunc(codes, func(c int) bool { return c < 400 || c > 599 })
		})
	}
	r := &ResilienceSpec{
		CBFailureThreshold: o.count("cb_failure_threshold", 1), CBSuccessThreshold: o.count("cb_success_threshold", 1),
		CBTimeoutSecs: o.count("cb_timeout_secs", 1), CBWindowSecs: o.count("cb_window_secs", 0),
		DisableCircuitBreaker: o.flag("disable_circuit_breaker"),
		RetryableStatusCodes:  statuses("retryable_status_codes"), CapacityStatusCodes: statuses("capacity_status_codes"),
		MaxRetries: o.count("max_retries", 0), InitialBackoffMs: o.count("initial_backoff_ms", 0), MaxBackoffMs: o.count("max_backoff_ms", 0),
		BackoffMultiplier: optional(o, "backoff_multiplier", "a number of at least 1", func(f float64) bool { return f >= 1 }),
		JitterFactor:      optional(o, "jitter_factor", "a number from 0 to 1", func(f float64) bool { return f >= 0 && f <= 1 }),
		DisableRetry:      o.flag("disable_retry"),
	}
	return given(o, r)
}

// OverloadSpec turns overload protection on for one worker, or moves its ceilings. New checks the ranges.
type OverloadSpec struct {
	WaitingRequests *int64   `json:"waiting_requests,omitempty"` // at least 1
	TokenUsage      *float64 `json:"token_usage,omitempty"`      // above 0, up to 1
}

func overloadOf(o *object) *OverloadSpec {
	if o == nil {
		return nil
	}
	return given(o, &OverloadSpec{
		WaitingRequests: optional[int64](o, "waiting_requests", "a whole number", nil),
		TokenUsage:      optional[float64](o, "token_usage", "a number", nil),
	})
}

// given is v, or nil if none of its fields was in the object: an empty one is not echoed.
func given[T any](o *object, v *T) *T {
	if o.found == 0 {
		return nil
	}
	return v
}

func (o *OverloadSpec) check() error {
	switch {
	case o == nil:
		return nil
	case o.WaitingRequests != nil && *o.WaitingRequests < 1:
		return &FieldError{"overload.waiting_requests", fmt.Sprintf("expected at least 1, not %d", *o.WaitingRequests)}
	case o.TokenUsage != nil && (*o.TokenUsage <= 0 || *o.TokenUsage > 1):
		return &FieldError{"overload.token_usage", fmt.Sprintf("expected more than 0 and at most 1, not %v", *o.TokenUsage)}
	}
	return nil
}

// override is the gateway's settings with the spec's own on top.
func (s *Spec) override(g Settings) Settings {
	if s.RuntimeType == External {
		g.Health.Disabled = true        // the spec may turn it on
		g.Overload = OverloadSettings{} // the gateway's ceilings are for engines of one's own
	}
	if h := s.Health; h != nil {
		set(&g.Health.Timeout, seconds(h.TimeoutSecs))
		if h.CheckIntervalSecs != nil && *h.CheckIntervalSecs > 0 {
			set(&g.Health.Interval, seconds(h.CheckIntervalSecs))
		}
		set(&g.Health.SuccessThreshold, number(h.SuccessThreshold))
		set(&g.Health.FailureThreshold, number(h.FailureThreshold))
		set(&g.Health.Disabled, h.DisableHealthCheck)
		set(&g.DrainSettle, seconds(h.DrainSettleSecs))
	}
	if p := s.HTTPPool; p != nil {
		set(&g.HTTPPool.HTTP2, p.HTTP2)
		set(&g.HTTPPool.MaxIdle, number(p.PoolMaxIdlePerHost))
		set(&g.HTTPPool.IdleTimeout, seconds(p.PoolIdleTimeoutSecs))
		set(&g.HTTPPool.RequestTimeout, seconds(p.TimeoutSecs))
		set(&g.HTTPPool.ConnectTimeout, seconds(p.ConnectTimeoutSecs))
	}
	if r := s.Resilience; r != nil {
		r.override(&g)
	}
	if o := s.Overload; o != nil {
		set(&g.Overload.WaitingRequests, o.WaitingRequests)
		set(&g.Overload.TokenUsage, o.TokenUsage)
	}
	return g
}

func (r *ResilienceSpec) override(g *Settings) {
	if r.CBFailureThreshold != nil { // a threshold of the worker's own holds although the gateway's breakers are off
		g.Breaker.FailureThreshold, g.Breaker.Disabled = *r.CBFailureThreshold, false
	}
	set(&g.Breaker.SuccessThreshold, r.CBSuccessThreshold)
	set(&g.Breaker.Timeout, seconds(r.CBTimeoutSecs))
	set(&g.Breaker.Disabled, r.DisableCircuitBreaker)
	set(&g.Statuses.Retryable, r.RetryableStatusCodes)
	set(&g.Statuses.Capacity, r.CapacityStatusCodes)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func seconds(n *uint32) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Second
	return &d
}

func number(n *uint32) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}
