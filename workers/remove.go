package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Guard limits a removal to one registration.
type Guard struct {
	ID       ID
	Revision uint64
	Any      bool // at whatever revision it is by then
}

// PinTo is the guard of this very revision of a worker.
func PinTo(w *Worker) Guard { return Guard{ID: w.id, Revision: w.revision} }

func (g Guard) holds(w *Worker) bool { return g.ID == w.id && (g.Any || g.Revision == w.revision) }

// Remove begins to take a worker out; that of a rank, this rank alone. A ready one drains first: it gets no new request, and leaves
// the registry when its settle window is over, whether or not requests are still in flight; they go on. Any other leaves at once. A
// replacement of the worker that has not come to its end is given up. The error is a [*NotFoundError], a [*QueueFullError] or [ErrClosed].
func (e *Enroller) Remove(id ID) error {
	w := e.registry.ByID(id)
	if w == nil {
		return &NotFoundError{id}
	}
	if err := e.jobs.Offer(e.removal(w.endpoint.Address, w.URL(), []Guard{{ID: id, Any: true}})); err != nil {
		return err
	}
	e.abandon(w)
	return nil
}

// RemoveAt begins to take everything out that is registered at an address or URL, of any scheme and every rank; with guards, only
// what one of them holds for by then. It waits while the queue is full. The error is [ErrClosed] or that of ctx.
func (e *Enroller) RemoveAt(ctx context.Context, addressOrURL string, guards ...Guard) error {
	return e.jobs.Submit(ctx, e.removal(addressOf(addressOrURL), addressOrURL, guards))
}

// RemoveThese is RemoveAt for what the guards hold for by then, and nothing else; over is called once when the removal has ended, or when
// the gateway is shutting down. It is not called if there is an error.
func (e *Enroller) RemoveThese(ctx context.Context, address string, guards []Guard, over func()) error {
	if len(guards) == 0 {
		over()
		return nil
	}
	job := e.removal(address, address, guards)
	job.Done = func(error) { over() }
	return e.jobs.Submit(ctx, job)
}

// Retire begins to take out a worker whose health checks have failed for long, as [HealthLoop.OnFailed] tells of it. first tells that
// this has just been found: later findings count only while no job is at the worker's address, so that a removal that was lost is
// made up for.
func (e *Enroller) Retire(w *Worker, first bool) {
	if !first && e.jobs.Busy(w.endpoint.Address) {
		return
	}
	err := e.jobs.Offer(e.removal(w.endpoint.Address, w.URL(), []Guard{PinTo(w)}))
	switch {
	case err == nil:
		e.log.Warn("worker has failed, it is removed", "worker", w.URL(), "id", w.ID().String())
	case !errors.Is(err, ErrClosed):
		e.log.Warn("worker has failed, it cannot be removed yet", "worker", w.URL(), "error", err)
	}
}

// addressOf is the address that a URL, or an address, stands for.
func addressOf(addressOrURL string) string {
	if endpoint, err := ParseEndpoint(addressOrURL); err == nil {
		return endpoint.Address
	}
	if endpoint, err := ParseEndpoint("http://" + addressOrURL); err == nil {
		return endpoint.Address
	}
	return addressOrURL
}

// removal is the job that takes workers out.
func (e *Enroller) removal(address, shown string, guards []Guard) *Job {
	longest := 600 * time.Second
	for _, w := range e.matching(address, guards) {
		longest = max(longest, w.settings.DrainSettle)
	}
	return &Job{
		Kind: RemoveWorker, Key: address, URL: shown, Limit: longest + 30*time.Second,
		Run: func(ctx context.Context, t *Turn) error { return e.remove(ctx, t, address, shown, guards) },
	}
}

func (e *Enroller) matching(address string, guards []Guard) []*Worker {
	found := e.registry.ByAddress(address)
	if len(guards) == 0 {
		return found
	}
	return slices.DeleteFunc(found, func(w *Worker) bool {
		return !slices.ContainsFunc(guards, func(g Guard) bool { return g.holds(w) })
	})
}

func (e *Enroller) remove(ctx context.Context, t *Turn, address, shown string, guards []Guard) error {
	found := e.matching(address, guards)
	if len(found) == 0 {
		if len(guards) > 0 {
			return nil // gone, or another registration by now
		}
		return fmt.Errorf("Worker %s not found", shown) //nolint:staticcheck // the API shows it
	}
	if err := t.Pause(ctx, e.drain(found)); err != nil {
		return err
	}
	for _, w := range found {
		if e.registry.Remove(w) { // false: replaced meanwhile, which is another registration
			e.log.Info("worker removed", "worker", w.URL(), "id", w.ID().String())
		}
	}
	return nil
}

// drain lets those that are ready get no new request, and tells how long to wait for the requests that are on their way to them.
func (e *Enroller) drain(found []*Worker) (window time.Duration) {
	var draining []string
	inFlight := int64(0)
	for _, w := range found {
		if w.settings.DrainSettle > 0 && w.advance(Ready, Draining) {
			window = max(window, w.settings.DrainSettle)
			draining = append(draining, w.URL())
			inFlight += w.InFlight()
		}
	}
	if len(draining) > 0 {
		e.log.Info(fmt.Sprintf("Draining %d worker(s) for %s before removal", len(draining), window), "workers", draining, "in_flight", inFlight)
	}
	return window
}
