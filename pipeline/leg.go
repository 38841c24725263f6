package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/workers"
)

// Outcome is how one worker's part of an attempt ended.
type Outcome uint8

// The outcomes of a leg.
const (
	NotSent     Outcome = iota // nothing was sent to the worker
	Answered                   // the worker's answer was read or relayed to its end; Leg.Status is the worker's
	Unreachable                // no connection, or none that carried the request; Leg.Status is 502
	TimedOut                   // the time for the attempt ran out; Leg.Status is 504 if no head had come
	Broken                     // the answer broke off; Leg.Status is the worker's head, or 502 without one
	Cancelled                  // smg gave it up, because another leg failed or the gateway stops
	ClientLeft                 // the client left first; Leg.Status is the worker's head, 0 without one
	ClientFault                // the client's upload stalled, broke off or grew too large
)

// Leg is one worker's part of an attempt.
type Leg struct {
	Worker  *workers.Worker
	Role    workers.Type
	Policy  string // who chose the worker; "" if no policy did
	Key     string // the routing key that is counted with the leg, set before Begin; "" for none
	Outcome Outcome
	Status  int // of the worker's answer, or the one that stands for its failure; 0 while nothing is known

	Sent       time.Time // when forward began to send
	FirstEvent time.Time // when the first event of a streamed answer came; zero if none did
	Streamed   bool      // the answer was an event stream
	Usage      Usage     // what the worker said that it computed

	Blocked time.Duration // how long a streamed answer stood still because the client did not read

	trial workers.Trial
	state atomic.Uint32
}

// Usage is what a worker says of the work that a request was; 0 where it says nothing.
type Usage struct{ InputTokens, OutputTokens int64 }

// The states of a leg's count.
const (
	uncounted uint32 = iota
	counted
	handedOver // to detached work, which gives the count back
)

// Begin counts the leg as in flight with its worker.
func (l *Leg) Begin() {
	if l.state.CompareAndSwap(uncounted, counted) {
		l.Worker.Begin()
		if l.Key != "" {
			l.Worker.BeginKey(l.Key)
		}
	}
}

// End takes the count back, once however often it is called, from any goroutine.
func (l *Leg) End() {
	if l.state.CompareAndSwap(counted, uncounted) {
		uncount(l.Worker, l.Key)
	}
}

// handOver passes the count on: the leg's own End does nothing any more, the returned function takes the count back.
func (l *Leg) handOver() (end func()) {
	if !l.state.CompareAndSwap(counted, handedOver) {
		return func() {}
	}
	w, key := l.Worker, l.Key // the leg belongs to another request by then
	return func() { uncount(w, key) }
}

// uncount takes back what Begin has counted.
func uncount(w *workers.Worker, key string) {
	if key != "" {
		w.EndKey(key)
	}
	w.End()
}

// TakeTrial asks the worker's breaker for the permission to send. Who got it calls ReleaseTrial when the leg is over.
func (l *Leg) TakeTrial() (ok bool) {
	l.trial, ok = l.Worker.Breaker().Take()
	return ok
}

// ReleaseTrial gives the permission back.
func (l *Leg) ReleaseTrial() {
	l.Worker.Breaker().Release(l.trial)
	l.trial = workers.Trial{}
}

func (l *Leg) reset(w *workers.Worker, role workers.Type) {
	l.Worker, l.Role, l.Outcome, l.Status, l.trial = w, role, NotSent, 0, workers.Trial{}
	l.Policy, l.Key = "", ""
	l.Sent, l.FirstEvent, l.Streamed, l.Usage, l.Blocked = time.Time{}, time.Time{}, false, Usage{}, 0
	l.state.Store(uncounted)
}

// MaxLegs is the greatest number of legs of one attempt: encode, prefill and decode.
const MaxLegs = 3

// Legs is whom an attempt goes to: nobody yet, one worker, prefill and decode, or encode, prefill and decode.
type Legs struct {
	legs [MaxLegs]Leg
	n    int
}

// Add adds a leg behind the others. The last one is the one whose answer the client gets.
func (l *Legs) Add(w *workers.Worker, role workers.Type) *Leg {
	leg := &l.legs[l.n]
	l.n++
	leg.reset(w, role)
	return leg
}

// Len is the number of legs.
func (l *Legs) Len() int { return l.n }

// At is the i-th leg, counted from 0.
func (l *Legs) At(i int) *Leg { return &l.legs[i] }

// Last is the leg whose answer the client gets; nil if there is none.
func (l *Legs) Last() *Leg {
	if l.n == 0 {
		return nil
	}
	return &l.legs[l.n-1]
}

// Begin counts every leg as in flight.
func (l *Legs) Begin() {
	for i := range l.n {
		l.legs[i].Begin()
	}
}

// End takes every count back that is still held.
func (l *Legs) End() {
	for i := range l.n {
		l.legs[i].End()
	}
}

// clear forgets the legs.
func (l *Legs) clear() {
	for i := range l.n {
		l.legs[i].reset(nil, 0)
	}
	l.n = 0
}
