package stages

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
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
}

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
// nothing is counted as in flight. When the attempts run out, the last answer goes to the client as it came.
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
		if !r.mayAgain(x) {
			r.metrics.Workers.RetriesExhausted(targetType(x), r.endpoint).Inc()
			return err
		}
		r.metrics.Workers.Retries(targetType(x), r.endpoint).Inc()
		if !e.Prompt && !r.wait(x, e) {
			return pipeline.ErrClientGone
		}
	}
}

// record counts how an attempt ended; the status is the worker's own or the one that stands for its failure.
func (r *retry) record(x *pipeline.Exchange, err error) (status int) {
	if leg := x.Legs.Last(); err == nil && leg != nil {
		status = leg.Status
		r.metrics.Router.Upstream("http", status, "").Inc()
		if retryableStatus(status) { // the last attempt, or no other worker was left: it was relayed at once
			r.metrics.Workers.RetriesExhausted(targetType(x), r.endpoint).Inc()
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
	if !retryableStatus(status) || !r.mayAgain(x) {
		return false
	}
	return status != http.StatusInternalServerError || othersLeft(x)
}

// mayAgain tells whether another attempt may start, as far as numbers and time go.
func (r *retry) mayAgain(x *pipeline.Exchange) bool {
	if x.Body.Streamed || x.Number >= r.MaxAttempts {
		return false
	}
	return r.Deadline <= 0 || time.Since(x.Arrived) < r.Deadline
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
func (r *retry) wait(x *pipeline.Exchange, e *pipeline.Error) (stayed bool) {
	delay := r.backoff(x.Number)
	if asked := retryAfter(e); asked > delay && !othersLeft(x) {
		delay = min(asked, r.MaxBackoff) // the same worker is next, and has said when
	}
	r.metrics.Workers.Backoff(x.Number).Observe(delay.Seconds())

	gone := &goneSignal{c: make(chan struct{})}
	x.Client.Watch(gone)
	defer x.Client.Unwatch(gone)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone.c:
		return false
	}
}

// backoff is the pause before the attempt with number attempt+1: initial times multiplier to the power of attempt-1, in whole
// milliseconds, capped, then jittered.
func (r *retry) backoff(attempt int) time.Duration {
	ms := float64(r.InitialBackoff.Milliseconds()) * math.Pow(r.Multiplier, float64(attempt-1))
	base := math.Min(math.Trunc(ms), float64(r.MaxBackoff.Milliseconds()))
	jitter := math.Round(base * r.Jitter * (2*rand.Float64() - 1))
	return time.Duration(math.Max(0, base+jitter)) * time.Millisecond
}

// retryAfter is what the worker asked for in seconds; 0 if it asked for nothing, or for a date.
func retryAfter(e *pipeline.Error) time.Duration {
	if e.Held == nil {
		return 0
	}
	for _, f := range e.Held.Fields {
		if strings.EqualFold(f.Name, "Retry-After") {
			seconds, _ := strconv.ParseUint(f.Value, 10, 31)
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
}

func targetType(x *pipeline.Exchange) string {
	if w := x.Target(); w != nil {
		return w.Type().String()
	}
	return workers.Regular.String()
}

// goneSignal closes its channel when the client leaves.
type goneSignal struct {
	once sync.Once
	c    chan struct{}
}

func (g *goneSignal) ClientGone() { g.once.Do(func() { close(g.c) }) }
