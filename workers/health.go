package workers

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxProbes is how many health probes may be in flight at the same time.
const maxProbes = 128

// HealthLoop probes the workers of a registry, each at once when it is registered and then at its interval, and moves them
// between ready, not_ready and failed by the results. A worker has one probe in flight at most, and a slow one delays no other.
// Draining workers and those whose health checks are disabled are not probed; neither are those that do not speak HTTP.
//
// A probe that failed while this process itself did not run, because it was suspended or got no processor, says nothing of the worker:
// it is thrown away and made again soon.
//
// A worker that comes back is let try at once, if its breaker has opened before it went: the breaker is half-open then. While the state
// stays ready, no probe moves a breaker: an engine that is healthy may fail requests nevertheless.
//
// Cost: two goroutines, and a goroutine and a connection for each probe while it lasts.
type HealthLoop struct {
	registry *Registry
	log      *slog.Logger
	onProbe  func(w *Worker, ok bool)
	onFailed func(w *Worker, first bool)
	clients  clients
	alarm    alarm
	pulse    *pulse

	mu     sync.Mutex
	checks map[ID]*check
	agenda agenda[*check]
	flying int // probes in flight
}

// NewHealthLoop makes the loop; nothing is probed before Run. A nil logger logs nothing.
func NewHealthLoop(registry *Registry, log *slog.Logger) *HealthLoop {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &HealthLoop{
		registry: registry, log: log, onProbe: func(*Worker, bool) {}, onFailed: func(*Worker, bool) {},
		clients: newClients(false), alarm: newAlarm(), pulse: newPulse(),
	}
}

// OnProbe asks for a call after each probe whose result counts, before it changes the worker's state. It is called by many
// goroutines, and set before Run.
func (h *HealthLoop) OnProbe(f func(w *Worker, ok bool)) { h.onProbe = f }

// OnFailed asks for a call after each failed probe that leaves a worker failed; first tells that it was not so before. It is called by
// many goroutines, and set before Run.
func (h *HealthLoop) OnFailed(f func(w *Worker, first bool)) { h.onFailed = f }

// Name is the name of this work.
func (*HealthLoop) Name() string { return "health" }

// Run probes until ctx ends, then waits for the probes in flight, which end with it, and returns nil.
func (h *HealthLoop) Run(ctx context.Context, ready func()) error {
	h.mu.Lock()
	h.checks, h.agenda, h.flying = map[ID]*check{}, nil, 0
	h.mu.Unlock()
	defer h.registry.Follow(h)()
	ready()

	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Go(func() { h.pulse.run(ctx) })
	h.alarm.heed(ctx, func() time.Duration {
		for l, ok := h.launch(); ok; l, ok = h.launch() {
			probes.Go(func() { h.probe(ctx, l) })
		}
		return h.pause()
	})
	return nil
}

// probe asks one worker and applies what it learns, unless ctx has ended: that is no failure of the worker.
func (h *HealthLoop) probe(ctx context.Context, l launch) {
	w, health := l.worker, &l.worker.settings.Health
	limited, cancel := context.WithTimeout(ctx, health.Timeout)
	err := h.clients.to(&w.endpoint, w.spec.APIKey, w.settings.HTTPPool.HTTP2).probe(limited, health.Endpoint)
	cancel()
	switch {
	case ctx.Err() != nil:
	case err != nil && h.pulse.stalled(l.at, time.Now()):
		h.log.Warn("the gateway itself did not run for a while, a failed health check does not count", "worker", w.URL(), "error", err)
		h.again(l.check)
	default:
		h.apply(l, err)
	}
	h.land(l.check)
}

func (h *HealthLoop) apply(l launch, cause error) {
	w := l.worker
	h.mu.Lock()
	if l.check.off || l.check.worker != w { // draining or gone, or another revision: says nothing about what is there now
		h.mu.Unlock()
		return
	}
	from := w.Status()
	to := l.check.apply(cause == nil, l.pending, from, w.settings.Health)
	h.mu.Unlock()
	h.onProbe(w, cause == nil)
	moved := to != from && w.advance(from, to) // somebody else may be faster, a removal for example
	switch {
	case moved && to == Ready:
		h.log.Info("worker is healthy again", "worker", w.URL(), "from", from.String())
		if s := w.Series(); w.Breaker().Readmit() && s != nil {
			s.Readmissions.Inc()
		}
	case moved:
		h.log.Warn("worker is unhealthy", "worker", w.URL(), "from", from.String(), "to", to.String(), "error", cause)
	}
	if cause != nil && w.Status() == Failed {
		h.onFailed(w, moved)
	}
}
