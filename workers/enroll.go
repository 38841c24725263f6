package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
)

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

// limit is how long an addition may take in all.
func (s Startup) limit() time.Duration { return s.Delay + s.Timeout + 30*time.Second }

// Enroller brings workers into a registry, changes them and takes them out again. Each of these is a job, and the jobs of one
// address run one after the other: two changes of one engine are never made side by side.
type Enroller struct {
	registry *Registry
	settings Settings
	startup  Startup
	log      *slog.Logger
	clients  clients
	jobs     *Jobs
	queue    JobSettings
	jobLog   *slog.Logger
	metrics  *telemetry.FleetMetrics // nil: nothing is counted
	byRank   bool                    // an engine with data-parallel ranks is one worker for each of them

	mu     sync.Mutex
	adding map[string][]*enrolment // by address, in the order of their reservations
	byID   map[ID]*enrolment
}

// EnrolOption changes how an [Enroller] works.
type EnrolOption func(*Enroller)

// WithJobs bounds the jobs of an enroller; without it they are [DefaultJobSettings].
func WithJobs(s JobSettings) EnrolOption { return func(e *Enroller) { e.queue = s } }

// WithJobLog gives the queue of an enroller a log of its own; without it both have the same.
func WithJobLog(log *slog.Logger) EnrolOption { return func(e *Enroller) { e.jobLog = log } }

// WithRanks makes a worker of each data-parallel rank that an engine tells of.
func WithRanks(on bool) EnrolOption { return func(e *Enroller) { e.byRank = on } }

// NewEnroller makes an enroller; Close ends what it began. A nil logger logs nothing.
func NewEnroller(registry *Registry, settings Settings, startup Startup, log *slog.Logger, options ...EnrolOption) *Enroller {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := &Enroller{
		registry: registry, settings: settings, startup: startup, log: log, jobLog: log, clients: newClients(true), queue: DefaultJobSettings(),
		adding: map[string][]*enrolment{}, byID: map[ID]*enrolment{},
	}
	for _, option := range options {
		option(e)
	}
	e.jobs = NewJobs(e.queue, e.jobLog)
	e.jobs.metrics = e.metrics
	return e
}

// ErrClosed says that the gateway is shutting down.
var ErrClosed = errors.New("the gateway is shutting down")

// Jobs is the queue that the changes go through. Whoever else changes the fleet in the background uses the same one.
func (e *Enroller) Jobs() *Jobs { return e.jobs }

// Close gives up all that has begun, and returns when it is over. It does not wait for drains to end: workers that drain stay
// registered.
func (e *Enroller) Close() {
	e.jobs.Close()
	e.clients.close()
}

// Add registers a worker once its engine is healthy, and returns when it is ready or has failed. The error is a [*URLError], a
// [*FieldError], an [*ExistsError], an [*InProgressError], that of ctx, or says why the engine could not be reached. An engine with
// ranks gives several workers; the first is returned.
func (e *Enroller) Add(ctx context.Context, spec Spec) (*Worker, error) {
	n, err := e.reserve(spec)
	if err != nil {
		return nil, err
	}
	if err := e.await(ctx, n); err != nil {
		return nil, err
	}
	return n.worker, nil
}

// await submits an enrolment, and returns when it is over. When ctx ends it is given up.
func (e *Enroller) await(ctx context.Context, n *enrolment) error {
	over := make(chan error, 1)
	n.ctx = ctx
	job := n.job
	job.Done = func(err error) {
		e.forget(n)
		over <- err
	}
	if err := e.jobs.Submit(ctx, job); err != nil {
		e.forget(n)
		return err
	}
	defer context.AfterFunc(ctx, func() { e.jobs.Withdraw(job, ctx.Err()) })()
	return <-over
}

// Reserve begins to add a worker in the background and returns the id that it will have. The error is one of those of Add that
// are known at once, a [*QueueFullError] or [ErrClosed]; what happens later is seen by Describe, and in the log.
func (e *Enroller) Reserve(spec Spec) (ID, error) {
	n, err := e.reserve(spec)
	if err != nil {
		return ID{}, err
	}
	if err := e.jobs.Offer(n.job); err != nil {
		e.forget(n)
		return ID{}, err
	}
	return n.id, nil
}

// Upsert begins to add a worker in the background, or to put it in the place of the one that has its URL by then; that keeps its id.
// The URL may be a bare host:port: then the engine is looked for over HTTP. It waits while the queue is full. The error is a
// [*URLError], [ErrClosed] or that of ctx.
func (e *Enroller) Upsert(ctx context.Context, spec Spec) error {
	if _, _, err := net.SplitHostPort(spec.URL); err == nil {
		spec.URL = "http://" + spec.URL
	}
	n, err := e.newEnrolment(spec, upsert)
	if err != nil {
		return err
	}
	n.source = sourceOf(&n.spec)
	e.hold(n)
	if err := e.jobs.Submit(ctx, n.job); err != nil {
		e.forget(n)
		return err
	}
	return nil
}

func (e *Enroller) run(ctx context.Context, t *Turn, n *enrolment) error {
	defer e.forget(n)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if n.ctx != nil {
		defer context.AfterFunc(n.ctx, cancel)()
	}
	if n.missed != nil {
		n.missed = sync.OnceFunc(n.missed)
	}
	err := e.enrol(ctx, t, n)
	e.settled(ctx, n, err)
	if err == nil {
		w := n.worker
		e.log.Info("worker registered", "worker", w.URL(), "id", w.ID().String(), "model", w.Model(),
			"runtime", w.Spec().RuntimeType.String(), "type", w.Type().String(), "revision", w.Revision())
		return nil
	}
	if n.giveUp != nil && n.ctx.Err() != nil {
		err = fmt.Errorf("Worker %s is about to be removed, its replacement is given up", n.id) //nolint:staticcheck // the API shows it
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		e.log.Warn("worker not registered", "worker", n.endpoint.URL, "id", n.id.String(), "error", err)
	}
	return err
}

func (e *Enroller) enrol(ctx context.Context, t *Turn, n *enrolment) error {
	settings, err := n.check(e.settings)
	if err != nil {
		return err
	}
	if err := e.stillThere(n); err != nil {
		return err
	}
	if err := t.Pause(ctx, e.startup.Delay); err != nil {
		return err
	}
	a := approach{Enroller: e, enrolment: n, turn: t, settings: settings, started: time.Now()}
	if err := a.reach(ctx); err != nil {
		return err
	}
	spec, err := a.learn(ctx)
	if err != nil {
		return err
	}
	ranks, err := a.ranks(ctx, spec)
	if err != nil {
		return err
	}
	return e.enter(n, ranks)
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
