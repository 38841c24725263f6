package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxProbing is how many registrations may ask their engines at the same time. Who only waits does not count.
const maxProbing = 200

// Startup says how long, and how often, a registration tries to reach its engine.
type Startup struct {
	Delay    time.Duration // before the first probe, 0 or more
	Interval time.Duration // from the start of one probe to that of the next, above 0
	Timeout  time.Duration // no probe starts later than this after the first, above 0; one is made in any case
}

// DefaultStartup is that of a gateway without --worker-startup-* flags.
func DefaultStartup() Startup {
	return Startup{Interval: 30 * time.Second, Timeout: 1800 * time.Second}
}

// Enroller brings workers into a registry and out again. It reserves the address of a worker while it is being added, so that
// two registrations of one engine never run side by side.
type Enroller struct {
	registry *Registry
	settings Settings
	startup  Startup
	log      *slog.Logger
	clients  clients
	probing  chan struct{} // a place for each registration that asks its engine

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // reservations and drains; both begin under the lock, and not after Close

	mu       sync.Mutex
	adding   map[string]*enrolment // by address; failed ones too, for a while
	byID     map[ID]*enrolment     // those that are not over
	removing map[ID]*JobStatus
	closed   bool
}

// NewEnroller makes an enroller; Close ends what it began. A nil logger logs nothing.
func NewEnroller(registry *Registry, settings Settings, startup Startup, log *slog.Logger) *Enroller {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Enroller{
		registry: registry, settings: settings, startup: startup, log: log,
		clients: newClients(true), probing: make(chan struct{}, maxProbing), ctx: ctx, stop: stop,
		adding: map[string]*enrolment{}, byID: map[ID]*enrolment{}, removing: map[ID]*JobStatus{},
	}
}

// ErrClosed says that the gateway is shutting down.
var ErrClosed = errors.New("the gateway is shutting down")

// Close gives up all that has begun, and returns when it is over. It does not wait for drains to end: workers that drain stay
// registered.
func (e *Enroller) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stop()
	e.work.Wait()
	e.clients.close()
}

// Add registers a worker once its engine is healthy, and returns when it is ready or has failed. The error is a [*URLError], a
// [*FieldError], an [*ExistsError], an [*InProgressError], that of ctx, or says why the engine could not be reached.
func (e *Enroller) Add(ctx context.Context, spec Spec) (*Worker, error) {
	n, err := e.reserve(spec)
	if err != nil {
		return nil, err
	}
	return e.run(ctx, n, func() {})
}

// Reserve begins to add a worker in the background and returns the id that it will have. The error is one of those of Add that
// are known at once, or [ErrClosed]; what happens later is seen by Describe, and in the log.
func (e *Enroller) Reserve(spec Spec) (ID, error) {
	n, err := e.reserve(spec)
	if err != nil {
		return ID{}, err
	}
	go func() { _, _ = e.run(e.ctx, n, func() {}) }() // Close waits for it: the reservation is counted
	return n.id, nil
}

// run takes an enrolment to its end. missed is called once, after the first attempt that did not reach the engine.
func (e *Enroller) run(ctx context.Context, n *enrolment, missed func()) (*Worker, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	e.begin(n)
	defer e.work.Done()
	w, err := e.enrol(ctx, n, sync.OnceFunc(missed))
	e.end(n, err)
	switch {
	case err == nil:
		e.log.Info("worker registered", "worker", w.URL(), "id", w.ID().String(), "model", w.Model(),
			"runtime", w.Spec().RuntimeType.String(), "type", w.Type().String())
	case ctx.Err() == nil:
		e.log.Warn("worker not registered", "worker", n.endpoint.URL, "id", n.id.String(), "error", err)
	}
	return w, err
}

func (e *Enroller) enrol(ctx context.Context, n *enrolment, missed func()) (*Worker, error) {
	settings, err := n.check(e.settings)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, e.startup.Delay); err != nil {
		return nil, err
	}
	a := approach{Enroller: e, enrolment: n, settings: settings, missed: missed, started: time.Now()}
	if err := a.reach(ctx); err != nil {
		return nil, err
	}
	spec, err := a.learn(ctx)
	if err != nil {
		return nil, err
	}
	w, err := newWorker(n.id, spec, e.settings)
	if err != nil {
		return nil, err
	}
	if err := e.registry.Add(w); err != nil {
		return nil, err
	}
	w.SetStatus(Ready) // not before every listener of the registry knows it
	return w, nil
}

// check finds what is wrong with a spec before anything is asked.
func (n *enrolment) check(s Settings) (Settings, error) {
	switch {
	case n.endpoint.Mode != HTTP:
		return s, fmt.Errorf("workers over %s are not supported", n.endpoint.Mode)
	case n.spec.RuntimeType == External:
		return s, errors.New("external workers are not supported")
	}
	return n.spec.override(s), n.spec.Overload.check()
}

// pause waits; the error is that of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
