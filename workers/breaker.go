package workers

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerState is the state of a circuit breaker, in the numbers that the metrics show.
type BreakerState int32

// The states of a circuit breaker.
const (
	BreakerClosed   BreakerState = 0 // requests pass
	BreakerOpen     BreakerState = 1 // no request passes until the time-out has run out
	BreakerHalfOpen BreakerState = 2 // a few requests pass as trials
)

// String is the state as labels and logs name it.
func (s BreakerState) String() string {
	return [...]string{"closed", "open", "half_open"}[s]
}

// BreakerSettings say when a breaker opens and closes again.
type BreakerSettings struct {
	FailureThreshold uint32        // failures in a row that open it, at least 1
	SuccessThreshold uint32        // successes in a row that close it from half-open, at least 1; also how many trials run at once
	Timeout          time.Duration // how long it stays open, above 0
	Disabled         bool          // it never opens; outcomes are recorded nevertheless
}

// DefaultBreakerSettings are those of a gateway without --cb-* flags.
func DefaultBreakerSettings() BreakerSettings {
	return BreakerSettings{FailureThreshold: 10, SuccessThreshold: 3, Timeout: 60 * time.Second}
}

// Breaker is the circuit breaker of one worker. It opens after failures in a row, lets trials through once its time-out has
// run out, and closes again after successes in a row. Its zero value is not usable; workers make theirs.
//
// While it is closed and nothing fails, asking and recording take no lock.
type Breaker struct {
	settings BreakerSettings
	notify   atomic.Pointer[func(from, to BreakerState)] // called after a change, without the lock

	state     atomic.Int32
	failures  atomic.Int64 // in a row
	successes atomic.Int64 // in a row

	mu        sync.Mutex // held for every change of state, and for what counts trials
	openUntil time.Time
	trials    uint32 // taken and not given back; only while half-open
	epoch     uint64 // changes with the state: a trial of an earlier half-open period gives nothing back
}

// Trial is the permission for one request, taken with [Breaker.Take]. Its zero value stands for a closed breaker.
type Trial struct{ epoch uint64 }

func newBreaker(s BreakerSettings, notify func(from, to BreakerState)) *Breaker {
	b := &Breaker{settings: s}
	b.tells(notify)
	return b
}

// State is the state now; a breaker whose time-out has run out is half-open from the moment that somebody looks.
func (b *Breaker) State() BreakerState {
	if s := BreakerState(b.state.Load()); s != BreakerOpen {
		return s
	}
	b.mu.Lock()
	from, to := b.ripen()
	b.mu.Unlock()
	b.tell(from, to)
	return to
}

// ConsecutiveFailures is the number of failures since the last success or change of state.
func (b *Breaker) ConsecutiveFailures() int64 { return b.failures.Load() }

// ConsecutiveSuccesses is the number of successes since the last failure or change of state.
func (b *Breaker) ConsecutiveSuccesses() int64 { return b.successes.Load() }

// Admits tells whether a request may be sent now: always when closed, never when open, and when half-open as long as a trial
// is free. It takes nothing; see Take.
func (b *Breaker) Admits() bool {
	if BreakerState(b.state.Load()) == BreakerClosed {
		return true
	}
	b.mu.Lock()
	from, to := b.ripen()
	free := to == BreakerClosed || to == BreakerHalfOpen && b.trials < b.settings.SuccessThreshold
	b.mu.Unlock()
	b.tell(from, to)
	return free
}

// Take takes the permission to send one request. ok is false when the breaker is open or all its trials are taken. Who took
// a trial calls Release when the request is over, whether or not it recorded an outcome.
func (b *Breaker) Take() (t Trial, ok bool) {
	if BreakerState(b.state.Load()) == BreakerClosed {
		return Trial{}, true
	}
	b.mu.Lock()
	from, to := b.ripen()
	switch {
	case to == BreakerClosed:
		ok = true
	case to == BreakerHalfOpen && b.trials < b.settings.SuccessThreshold:
		b.trials++
		t, ok = Trial{epoch: b.epoch}, true
	}
	b.mu.Unlock()
	b.tell(from, to)
	return t, ok
}

// Release gives a trial back.
func (b *Breaker) Release(t Trial) {
	if t.epoch == 0 {
		return
	}
	b.mu.Lock()
	if t.epoch == b.epoch && b.trials > 0 {
		b.trials--
	}
	b.mu.Unlock()
}

// Success records that a request to the worker went well.
func (b *Breaker) Success() {
	if BreakerState(b.state.Load()) == BreakerClosed && b.failures.Load() == 0 {
		b.successes.Add(1)
		return
	}
	b.mu.Lock()
	from := BreakerState(b.state.Load())
	to := from
	b.failures.Store(0)
	if n := b.successes.Add(1); from == BreakerHalfOpen && n >= int64(b.settings.SuccessThreshold) {
		to = b.move(BreakerClosed)
	}
	b.mu.Unlock()
	b.tell(from, to)
}

// Failure records that a request to the worker failed. In the open state it counts, but does not lengthen the time-out.
func (b *Breaker) Failure() {
	b.mu.Lock()
	from := BreakerState(b.state.Load())
	to := from
	b.successes.Store(0)
	n := b.failures.Add(1)
	switch {
	case from == BreakerClosed && n >= int64(b.settings.FailureThreshold) && !b.settings.Disabled:
		to = b.open()
	case from == BreakerHalfOpen:
		to = b.open()
	}
	b.mu.Unlock()
	b.tell(from, to)
}

// Reset closes the breaker by hand.
func (b *Breaker) Reset() {
	b.mu.Lock()
	from := BreakerState(b.state.Load())
	if from != BreakerClosed {
		b.move(BreakerClosed)
	}
	b.failures.Store(0)
	b.successes.Store(0)
	b.mu.Unlock()
	b.tell(from, BreakerClosed)
}

// Readmit lets trials through before the time-out has run out: the worker is known to be back. readmitted is false if it was not open.
func (b *Breaker) Readmit() (readmitted bool) {
	b.mu.Lock()
	from, to := b.ripen()
	if readmitted = to == BreakerOpen; readmitted {
		to = b.move(BreakerHalfOpen)
	}
	b.mu.Unlock()
	b.tell(from, to)
	return readmitted
}

// ripen moves an open breaker whose time-out has run out to half-open. The lock is held.
func (b *Breaker) ripen() (from, to BreakerState) {
	s := BreakerState(b.state.Load())
	if s == BreakerOpen && !time.Now().Before(b.openUntil) {
		return s, b.move(BreakerHalfOpen)
	}
	return s, s
}

// open keeps the count of failures: that is what the gauge should show while the breaker is open.
func (b *Breaker) open() BreakerState {
	b.openUntil = time.Now().Add(b.settings.Timeout)
	n := b.failures.Load()
	b.move(BreakerOpen)
	b.failures.Store(n)
	return BreakerOpen
}

func (b *Breaker) move(to BreakerState) BreakerState {
	b.state.Store(int32(to))
	b.failures.Store(0)
	b.successes.Store(0)
	b.trials = 0
	b.epoch++
	return to
}

// tells says who hears of changes from now on; nil is nobody.
func (b *Breaker) tells(notify func(from, to BreakerState)) {
	if notify == nil {
		b.notify.Store(nil)
		return
	}
	b.notify.Store(&notify)
}

func (b *Breaker) tell(from, to BreakerState) {
	if f := b.notify.Load(); from != to && f != nil {
		(*f)(from, to)
	}
}
