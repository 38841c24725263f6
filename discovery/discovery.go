package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// Settings say when a [Discovery] acts, and whom it tells.
type Settings struct {
	Prompt time.Duration // from a change of the wanted workers to a pass, if there was no such pass for the time of Gather; above 0
	Gather time.Duration // from any other change to a pass, and from a withdrawal to the removal of the worker at least; above 0
	Every  time.Duration // from one pass to the next if nothing changes, above 0
	APIKey string        // of the workers that bring none of their own; "" for none

	Metrics *telemetry.DiscoveryMetrics // nil: nothing is counted
	Log     *slog.Logger                // nil: nothing is logged
	OnPass  func()                      // called after each pass; nil: nobody cares
}

// DefaultSettings are those of a gateway without flags.
func DefaultSettings() Settings {
	return Settings{Prompt: 50 * time.Millisecond, Gather: time.Second, Every: time.Minute}
}

// complete fills in whom nobody has named.
func (s Settings) complete() Settings {
	if s.Metrics == nil {
		s.Metrics = telemetry.NewMetrics(telemetry.Options{}).Discovery // whose registry nobody reads
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.OnPass == nil {
		s.OnPass = func() {}
	}
	return s
}

// Discovery keeps the workers of a registry that a source owns equal to those that it wants. Workers that come from elsewhere are
// left alone.
//
// Cost: two goroutines, beside those of the source. A pass looks at each wanted and each registered worker once.
type Discovery struct {
	source   Source
	registry *workers.Registry
	enroller enroller
	settings Settings
	dialect  dialect
	series   *telemetry.DiscoverySource
	cordons  *cordons
	warned   warnings
}

// enroller is what a discovery asks of a [workers.Enroller].
type enroller interface {
	Upsert(ctx context.Context, spec workers.Spec) error
	RemoveThese(ctx context.Context, address string, guards []workers.Guard, over func()) error
	Jobs() *workers.Jobs
}

// New makes a discovery; nothing is watched, registered or removed before Run. Workers are registered and removed by the enroller,
// which is the one of the registry.
func New(source Source, registry *workers.Registry, enroller *workers.Enroller, s Settings) *Discovery {
	return newDiscovery(source, registry, enroller, s)
}

func newDiscovery(source Source, registry *workers.Registry, e enroller, s Settings) *Discovery {
	s = s.complete()
	d := &Discovery{
		source: source, registry: registry, enroller: e, settings: s,
		dialect: dialectOf(source.Name()), series: s.Metrics.Source(source.Name()),
	}
	d.cordons = newCordons(registry, &d.dialect)
	return d
}

// Name is the name of this work.
func (*Discovery) Name() string { return "discovery" }

// Run works until ctx ends, and returns nil; workers that it has registered stay. It calls ready at once: a source that cannot be
// reached must not keep a gateway from serving with the workers that it has. The error tells that the source has given up.
func (d *Discovery) Run(ctx context.Context, ready func()) error {
	ready()
	r := &run{Discovery: d, schedule: newSchedule(d.settings, time.Now()), arrivals: newArrivals()}
	return r.work(ctx)
}

// run is a discovery while it runs.
type run struct {
	*Discovery
	schedule *schedule
	arrivals *arrivals
}

func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.cordons.release() // last: nobody would let them go
	defer r.registry.Listen(&listener{r.arrivals, &r.dialect})()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	gaveUp := make(chan error, 1)
	parts.Go(func() {
		if err := r.watch(ctx); err != nil && ctx.Err() == nil {
			gaveUp <- err
		}
	})
	parts.Go(func() { r.receive(ctx) })
	return r.passes(ctx, gaveUp)
}

// watch follows the source; if that panics, the panic is its error.
func (r *run) watch(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("source %s: panic: %v", r.source.Name(), cause)
			r.settings.Log.Error("a source of workers panicked", "source", r.source.Name(), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	return r.source.Watch(ctx, r)
}

// Changed is told by the source. Who is withdrawn gets no new request from here on; the rest is for a pass.
func (r *run) Changed(c Change) {
	now := time.Now()
	if r.cordons.hear(c, now) {
		r.schedule.remind(now.Add(r.settings.Gather))
	}
	r.schedule.note(now, c.Alters)
}

// receive looks at registrations that have come while nobody could say whether they are wanted.
func (r *run) receive(ctx context.Context) {
	for {
		select {
		case <-r.arrivals.wake:
		case <-ctx.Done():
			return
		}
		for _, w := range r.arrivals.take() {
			if now := time.Now(); r.cordons.arrived(w, now) {
				r.schedule.remind(now.Add(r.settings.Gather))
			}
		}
	}
}

// passes makes one pass after the other, each when it is due.
func (r *run) passes(ctx context.Context, gaveUp <-chan error) error {
	timer := time.NewTimer(time.Until(r.schedule.next()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-gaveUp:
			return err
		case <-r.schedule.wake:
		case <-timer.C:
		}
		if !time.Now().Before(r.schedule.next()) {
			r.pass(ctx)
		}
		timer.Reset(time.Until(r.schedule.next()))
	}
}
