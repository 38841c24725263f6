package stages

import (
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// AdmissionSettings say how many requests are let in.
type AdmissionSettings struct {
	Requests  int           // that are let in at once, at least 1
	Queue     int           // requests that may wait, at least 0; 0: whoever finds no permit is refused at once
	Wait      time.Duration // the longest wait in the queue, above 0
	PerSecond int           // permits that are added, besides those that requests give back; 0: none
}

// Limiter is what the routes that share a limit have in common: the permits, and who waits for one. It is made once, and handed to the
// [Admission] stages.
type Limiter struct {
	AdmissionSettings
	permits  permits
	admitted atomic.Uint64 // requests that got a permit
	pace     pace
	metrics  *telemetry.AdmissionMetrics
}

// permits is how permits are given out.
type permits interface {
	enter() bool                 // takes a permit if there is one and nobody waits
	join(w *waiter) admittance   // takes one, or a place in the queue, if there is one
	leave(w *waiter) (held bool) // takes who has joined out of the queue; held: it has got a permit meanwhile
	release()                    // gives a permit back
	sample() admissionSample
}

type admittance uint8

const (
	entered    admittance = iota // has a permit
	inLine                       // waits
	refused429                   // the queue is full
)

// admissionSample is who holds permits and who waits for one.
type admissionSample struct{ held, waiting int }

// NewLimiter makes a limiter, and the source of the admission metrics.
//
// Without PerSecond, permits bound how many requests run at once: one that is given back goes to who has waited longest, and nobody
// overtakes who waits. With it, they are tokens in a bucket that holds Requests of them and is full at first: it gets PerSecond of
// them a second, and one from each request that ends, so that more than Requests may run at once.
func NewLimiter(s AdmissionSettings, m *telemetry.AdmissionMetrics) *Limiter {
	l := &Limiter{AdmissionSettings: s, metrics: m}
	if s.PerSecond > 0 {
		l.permits = newBucket(s)
	} else {
		l.permits = newTurnstile(s)
	}
	m.SetSource(func() telemetry.AdmissionSample {
		now := l.permits.sample()
		return telemetry.AdmissionSample{InFlight: int64(now.held), Queued: int64(now.waiting), Admitted: l.admitted.Load()}
	})
	return l
}

// released is how many permits have been given back.
func (l *Limiter) released() uint64 {
	return l.admitted.Load() - min(uint64(l.permits.sample().held), l.admitted.Load())
}
