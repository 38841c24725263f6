package discovery

import (
	"sync"

	"github.com/smg-go/smg/workers"
)

// arrivals are registrations that somebody has to look at. They are put down where the registry tells of them, which must be quick
// and must not change the registry.
type arrivals struct {
	wake chan struct{}

	mu  sync.Mutex
	all []*workers.Worker
}

func newArrivals() *arrivals { return &arrivals{wake: make(chan struct{}, 1)} }

func (a *arrivals) put(w *workers.Worker) {
	a.mu.Lock()
	a.all = append(a.all, w)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *arrivals) take() []*workers.Worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

// listener puts those down that may have come too late, or have become somebody else's.
type listener struct {
	arrivals *arrivals
	dialect  *dialect
}

var _ workers.Listener = (*listener)(nil)

// WorkerAdded notes a worker of the source's own.
func (l *listener) WorkerAdded(w *workers.Worker) {
	if _, owned := l.dialect.claimOf(w); owned {
		l.arrivals.put(w)
	}
}

// WorkerReplaced notes a worker that was or is the source's own.
func (l *listener) WorkerReplaced(was, now *workers.Worker) {
	if _, owned := l.dialect.claimOf(was); owned {
		l.arrivals.put(now)
		return
	}
	l.WorkerAdded(now)
}

// WorkerRemoved does nothing.
func (*listener) WorkerRemoved(*workers.Worker) {}

// WorkerStatus does nothing.
func (*listener) WorkerStatus(*workers.Worker, workers.Status, workers.Status) {}
