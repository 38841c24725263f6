package workers

import (
	"fmt"
	"time"
)

// Remove takes a worker out. A ready one drains first: it gets no new request, and leaves the registry when its settle window is
// over, whether or not requests are still in flight; they go on. Any other leaves at once. Remove does not wait; a second call
// for the same worker changes nothing. The error is a [*NotFoundError] or [ErrClosed].
func (e *Enroller) Remove(id ID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.registry.ByID(id)
	switch {
	case e.closed:
		return ErrClosed
	case w == nil:
		return &NotFoundError{id}
	case e.removing[id] != nil:
		return nil
	}
	settle := w.Settings().DrainSettle
	if settle <= 0 || !w.advance(Ready, Draining) {
		e.drop(w)
		return nil
	}
	e.log.Info(fmt.Sprintf("Draining 1 worker(s) for %s before removal", settle), "worker", w.URL(), "in_flight", w.InFlight())
	e.removing[id] = &JobStatus{JobType: "RemoveWorker", WorkerURL: w.URL(), Status: jobProcessing, Timestamp: time.Now().Unix()}
	e.work.Go(func() { e.settle(w, settle) })
	return nil
}

func (e *Enroller) settle(w *Worker, window time.Duration) {
	err := pause(e.ctx, window)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.removing, w.id)
	if err == nil {
		e.drop(w)
	}
}

func (e *Enroller) drop(w *Worker) {
	if e.registry.Remove(w) { // false: replaced meanwhile, which is another registration
		e.log.Info("worker removed", "worker", w.URL(), "id", w.ID().String())
	}
}
