package server

import (
	"time"

	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/workers"
)

// retriesOf gives the retry settings of a model whose workers' specs say something of them: the operator's with theirs on top.
func retriesOf(r *workers.Registry, operator stages.RetrySettings) stages.RetryOverride {
	return func(model string) *stages.RetrySettings {
		own := r.Retries(model)
		if own == nil {
			return nil
		}
		return retriesWith(operator, own)
	}
}

func retriesWith(s stages.RetrySettings, own *workers.ResilienceSpec) *stages.RetrySettings {
	if own.MaxRetries != nil {
		s.MaxAttempts = max(1, int(*own.MaxRetries))
	}
	if own.DisableRetry != nil && *own.DisableRetry {
		s.MaxAttempts = 1
	}
	if own.InitialBackoffMs != nil {
		s.InitialBackoff = time.Duration(max(1, *own.InitialBackoffMs)) * time.Millisecond
	}
	if own.MaxBackoffMs != nil {
		s.MaxBackoff = time.Duration(*own.MaxBackoffMs) * time.Millisecond
	}
	s.MaxBackoff = max(s.MaxBackoff, s.InitialBackoff)
	if own.BackoffMultiplier != nil {
		s.Multiplier = *own.BackoffMultiplier
	}
	if own.JitterFactor != nil {
		s.Jitter = *own.JitterFactor
	}
	return &s
}
