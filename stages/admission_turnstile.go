package stages

import (
	"sync"
	"sync/atomic"
)

// turnstile bounds how many hold a permit at once. Permits that are free are counted in one word together with who waits, so that
// taking and giving back is one step each while nobody waits; the lock is for those who wait alone.
type turnstile struct {
	_     [64]byte // its neighbours are read by every request
	state atomic.Uint64
	_     [64]byte
	limit uint64
	queue int

	mu   sync.Mutex
	line waitingLine
}

// oneWaiting is a request that waits, in the upper half of state; the lower half counts permits that are held.
const oneWaiting = 1 << 32

func newTurnstile(s AdmissionSettings) *turnstile {
	return &turnstile{limit: uint64(s.Requests), queue: s.Queue}
}

// enter fails also while there are permits and somebody waits: state is over the limit then.
func (t *turnstile) enter() bool {
	for {
		s := t.state.Load()
		if s >= t.limit {
			return false
		}
		if t.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// join changes the count in the step that has seen no free permit: whoever gives one back after it sees that somebody waits, and
// waits for the lock, until the line is as long as the count says.
func (t *turnstile) join(w *waiter) admittance {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		s := t.state.Load()
		switch {
		case s < t.limit:
			if t.state.CompareAndSwap(s, s+1) {
				return entered
			}
		case t.line.len >= t.queue:
			return refused429
		default:
			if t.state.CompareAndSwap(s, s+oneWaiting) {
				t.line.push(w)
				return inLine
			}
		}
	}
}

func (t *turnstile) leave(w *waiter) (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.line.remove(w) {
		return true
	}
	t.state.Add(^uint64(oneWaiting - 1))
	return false
}

func (t *turnstile) release() {
	for {
		s := t.state.Load()
		if s >= oneWaiting {
			break
		}
		if t.state.CompareAndSwap(s, s-1) {
			return
		}
	}
	t.handOver()
}

// handOver gives the permit to who has waited longest; it is never free in between, so nobody can overtake. Only whoever has the lock
// makes fewer wait.
func (t *turnstile) handOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.line.pop(); w != nil {
		t.state.Add(^uint64(oneWaiting - 1))
		w.grant()
		return
	}
	t.state.Add(^uint64(0)) // who waited has left meanwhile
}

func (t *turnstile) sample() admissionSample {
	s := t.state.Load()
	return admissionSample{held: int(s % oneWaiting), waiting: int(s / oneWaiting)}
}
