package stages

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// RetrySettings say how often and how soon a request is tried again.
type RetrySettings struct {
	MaxAttempts    int           // the first included, at least 1; 1 turns retries off
	InitialBackoff time.Duration // before the second attempt, above 0
	MaxBackoff     time.Duration // cap of the backoff before jitter, at least InitialBackoff
	Multiplier     float64       // of the backoff from attempt to attempt, at least 1
	Jitter         float64       // share of the backoff that is added or taken off at random, 0 to 1
	Deadline       time.Duration // no attempt starts later than this after the request arrived; 0: no limit

	// ForModel gives the settings for a model that has some of its own, and nil for one that has none. The model is that of the chosen
	// worker, "" for one that takes every model. It is asked when an attempt has failed, by many requests at once; nil: the same for all.
	ForModel RetryOverride
}

// RetryOverride is what [RetrySettings.ForModel] is.
type RetryOverride func(model string) *RetrySettings

// DefaultRetrySettings are those of a gateway without --retry-* flags.
func DefaultRetrySettings() RetrySettings {
	return RetrySettings{
		MaxAttempts: 5, InitialBackoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second,
		Multiplier: 1.5, Jitter: 0.2, Deadline: 1800 * time.Second,
	}
}

// Retry runs the rest of the chain again, from a new choice of workers on, when an attempt ends with 408, 429, 500, 502, 503
// or 504, made by a worker or by the gateway; not if the error is terminal, nor once a byte of an answer has gone to the
// client. A worker's 500 is tried again only on a worker that the request was not sent to yet. Between attempts it waits, and
// nothing is counted as in flight; a worker's Retry-After, up to MaxBackoff, is the least time before the request is sent to that
// worker again. An attempt that would begin behind the deadline is not waited for. When the attempts run out, the last answer goes to
// the client as it came.
//
// A body that is streamed to the worker unread has one attempt. endpoint is the label of the route.
func Retry(s RetrySettings, endpoint string, m *telemetry.Metrics) pipeline.Stage {
	return &retry{RetrySettings: s, endpoint: endpoint, metrics: m}
}

type retry struct {
	RetrySettings
	endpoint string
	metrics  *telemetry.Metrics
}

var (
	_ pipeline.Stage      = (*retry)(nil)
	_ pipeline.Contracted = (*retry)(nil)
	_ pipeline.Judge      = (*retry)(nil)
)

func (*retry) Name() string { return "retry" }

func (*retry) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Body, pipeline.Model}}
}

func (r *retry) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	x.Judge = r
	for {
		x.BeginAttempt()
		err := next(x)
		status := r.record(x, err)
		if err == nil || !retryableStatus(status) {
			return err
		}
		e := pipeline.AsError(err)
		if e.Terminal || x.Status() != 0 {
			return err
		}
		s := r.settings(x)
		noteRespite(x, e, s.MaxBackoff)
		delay := s.delay(x, e)
		if !s.mayAgain(x, delay) {
			r.exhausted(x)
			return err
		}
		r.metrics.Workers.Retries(targetType(x), r.endpoint).Inc()
		if !e.Prompt && !r.wait(x, delay) {
			return pipeline.ErrClientGone
		}
		if e.Held != nil && status == http.StatusInternalServerError && !othersLeft(x) {
			r.exhausted(x) // who was left when the answer was held back has gone meanwhile
			return err
		}
	}
}

// settings are those of the model that the attempt was for.
func (r *retry) settings(x *pipeline.Exchange) *RetrySettings {
	if r.ForModel != nil {
		if model, one := attemptedModel(x); one {
			if own := r.ForModel(model); own != nil {
				return own
			}
		}
	}
	return &r.RetrySettings
}

// attemptedModel is the model of the worker that was chosen: a client may name none, or one that is served by a worker of every model. one
// is false if nobody was chosen, and those who could have been serve several.
func attemptedModel(x *pipeline.Exchange) (model string, one bool) {
	if w := x.Target(); w != nil {
		return w.Model(), true
	}
	if x.Pool.Len() == 0 {
		return "", false
	}
	model = x.Pool.At(0).Model()
	return model, !x.Pool.Any(func(w *workers.Worker) bool { return w.Model() != model })
}

func (r *retry) exhausted(x *pipeline.Exchange) {
	r.metrics.Workers.RetriesExhausted(targetType(x), r.endpoint).Inc()
}

// record counts how an attempt ended; the status is the worker's own or the one that stands for its failure.
func (r *retry) record(x *pipeline.Exchange, err error) (status int) {
	if leg := x.Legs.Last(); err == nil && leg != nil {
		status = leg.Status
		r.metrics.Router.Upstream("http", status, "").Inc()
		if retryableStatus(status) { // the last attempt, or no other worker was left: it was relayed at once
			r.exhausted(x)
		}
		return status
	}
	status, code := x.Result(err)
	if status != 0 {
		r.metrics.Router.Upstream("http", status, code).Inc()
	}
	return status
}

// Hold tells forward to keep an answer back that may be replaced by another attempt's.
func (r *retry) Hold(x *pipeline.Exchange, leg *pipeline.Leg, status int) bool {
	if !retryableStatus(status) || !r.settings(x).mayAgain(x, 0) {
		return false
	}
	return status != http.StatusInternalServerError || othersLeft(x)
}

// mayAgain tells whether another attempt may start after a delay, as far as numbers and time go.
func (s *RetrySettings) mayAgain(x *pipeline.Exchange, delay time.Duration) bool {
	if x.Body.Streamed || x.Number >= s.MaxAttempts {
		return false
	}
	return s.Deadline <= 0 || time.Since(x.Arrived)+delay < s.Deadline
}

// othersLeft tells whether the request could go to a worker that it was not sent to.
func othersLeft(x *pipeline.Exchange) bool {
	if policy.Pinned.Get(x).Only {
		return false
	}
	return x.Pool.Any(func(w *workers.Worker) bool { return w.Available() && !x.Tried(w) })
}

func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// wait sleeps until the next attempt may start; stayed is false if the client left meanwhile.
func (r *retry) wait(x *pipeline.Exchange, delay time.Duration) (stayed bool) {
	r.metrics.Workers.Backoff(x.Number).Observe(delay.Seconds())
	defer x.Idled(x.Wait())
	gone := watchDeparture(x.Client)
	defer gone.end()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone.c:
		return false
	}
}

// delay is the pause before the next attempt. If only workers are left that were tried, one of them must be ready for another time.
func (s *RetrySettings) delay(x *pipeline.Exchange, e *pipeline.Error) time.Duration {
	if e.Prompt {
		return 0
	}
	d := s.backoff(x.Number)
	if othersLeft(x) {
		return d
	}
	return max(d, untilReady(x))
}

// backoff is the pause before the attempt with number attempt+1: initial times multiplier to the power of attempt-1, in whole
// milliseconds, capped, then jittered.
func (s *RetrySettings) backoff(attempt int) time.Duration {
	ms := float64(s.InitialBackoff.Milliseconds()) * math.Pow(s.Multiplier, float64(attempt-1))
	base := math.Min(math.Trunc(ms), float64(s.MaxBackoff.Milliseconds()))
	jitter := math.Round(base * s.Jitter * (2*rand.Float64() - 1))
	return time.Duration(math.Max(0, base+jitter)) * time.Millisecond
}

func targetType(x *pipeline.Exchange) string {
	if w := x.Target(); w != nil {
		return w.Type().String()
	}
	return workers.Regular.String()
}
