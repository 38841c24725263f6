package stages

import (
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Admission lets as many requests in at once as the limiter has permits. A request keeps its permit until its response has ended: its
// last byte has gone out, or it failed, or its client has left. Who comes when all are taken waits in the order of arrival, with its
// body unread; a client that leaves meanwhile leaves the queue at once. Refused, and never retried, are
//
//   - 429 admission_queue_full: as many wait already as may, or nobody may;
//   - 503 admission_queue_timeout: it has waited too long.
//
// Both carry Retry-After: how long the queue takes to drain as fast as it has drained lately, 1 to 60 s; 2 s as long as that is not
// known.
//
// It stands before the body is read, and before everything that costs much. Cost while there are permits: three atomic operations and
// no allocation.
func Admission(l *Limiter) pipeline.Stage { return admission{l} }

type admission struct{ limiter *Limiter }

var (
	_ pipeline.Stage      = admission{}
	_ pipeline.Contracted = admission{}
)

// queued tells that the request waits for admission.
var queued = pipeline.NewFact[bool]("queued")

func (admission) Name() string { return "admission" }

func (admission) Contract() pipeline.Contract { return pipeline.Contract{} }

func (s admission) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.DryRun {
		return next(x)
	}
	l := s.limiter
	if l.permits.enter() {
		l.admitted.Add(1)
	} else if err := l.wait(x); err != nil {
		return err
	}
	defer l.permits.release()
	return x.Conclude(next) // an answer that was held back for a retry is written while the permit is held, too
}

// wait takes the request through the queue; nil means that it has a permit.
func (l *Limiter) wait(x *pipeline.Exchange) error {
	began := time.Now()
	l.pace.note(began, l.released)
	w := newWaiter()
	switch l.permits.join(w) {
	case entered:
		l.admitted.Add(1)
		return nil
	case refused429:
		l.metrics.RejectedFull.Inc()
		return l.refuse(http.StatusTooManyRequests, "admission_queue_full", l.fullMessage())
	case inLine:
	}
	queued.Set(x, true)
	gone := watchDeparture(x.Client)
	defer gone.end()
	timer := time.NewTimer(l.Wait)
	defer timer.Stop()
	outcome, err := telemetry.QueueAdmitted, error(nil)
	since := x.Wait()
	select {
	case <-w.granted:
	case <-gone.c:
		outcome, err = telemetry.QueueCancelled, pipeline.ErrClientGone
		if l.permits.leave(w) {
			l.permits.release() // it was granted in the same moment
		}
	case <-timer.C:
		if !l.permits.leave(w) {
			outcome = telemetry.QueueTimedOut
			l.metrics.RejectedTimeout.Inc()
			err = l.refuse(http.StatusServiceUnavailable, "admission_queue_timeout", "Timed out waiting for an admission slot")
		}
	}
	x.Idled(since)
	if err == nil {
		queued.Set(x, false)
		l.admitted.Add(1)
	}
	now := time.Now()
	l.pace.note(now, l.released)
	l.metrics.QueueWait(outcome).Observe(now.Sub(began).Seconds())
	return err
}

func (l *Limiter) fullMessage() string {
	if l.Queue == 0 {
		return "The limit of concurrent requests is reached, and queuing is disabled"
	}
	return "The admission queue is full"
}

func (l *Limiter) refuse(status int, code, message string) error {
	l.metrics.RateLimitRejected.Inc()
	return &pipeline.Error{
		Status: status, Code: code, Message: message, Terminal: true,
		RetryAfter: l.pace.estimate(time.Now(), l.permits.sample().waiting, l.released()),
	}
}
