package workers

import (
	"context"
	"errors"
	"sync"
	"time"
)

// herdGuard is how long the gateway may be held back after the first startup worker became ready: long enough for the others
// to join, so that they share the first rush of requests.
const herdGuard = 5 * time.Second

// StartupWorkers adds the workers that the gateway was started with.
type StartupWorkers struct {
	enroller *Enroller
	specs    []Spec
}

// Startup is the work of adding workers when the gateway starts. A URL that comes twice is added once.
func (e *Enroller) Startup(specs []Spec) *StartupWorkers {
	return &StartupWorkers{enroller: e, specs: specs}
}

// Name is the name of this work.
func (*StartupWorkers) Name() string { return "startup-workers" }

// Run adds the workers, side by side, and returns nil when each is registered or has failed for good, or when ctx ends. It
// calls ready when each has been registered or has failed its first probe, and at most 5 s after the first was registered.
func (s *StartupWorkers) Run(ctx context.Context, ready func()) error {
	ready = sync.OnceFunc(ready)
	specs := s.unique()
	tried := make(chan struct{}, len(specs))
	added := make(chan struct{}, len(specs))
	var work sync.WaitGroup
	for _, spec := range specs {
		work.Go(func() {
			once := sync.OnceFunc(func() { tried <- struct{}{} })
			defer once()
			if s.add(ctx, spec, once) {
				added <- struct{}{}
			}
		})
	}
	s.announce(ctx, ready, len(specs), tried, added)
	work.Wait()
	return nil
}

// announce calls ready when all that are waited for have been tried, or some time after the first was added.
func (s *StartupWorkers) announce(ctx context.Context, ready func(), waiting int, tried, added <-chan struct{}) {
	var guard <-chan time.Time
	for waiting > 0 {
		select {
		case <-tried:
			waiting--
		case <-added:
			if guard == nil {
				timer := time.NewTimer(herdGuard)
				defer timer.Stop()
				guard = timer.C
			}
		case <-guard:
			waiting = 0
		case <-ctx.Done():
			return
		}
	}
	ready()
}

// add reports whether the worker is registered; that it was already is as good.
func (s *StartupWorkers) add(ctx context.Context, spec Spec, missed func()) bool {
	e := s.enroller
	n, err := e.reserve(spec)
	if err == nil {
		_, err = e.run(ctx, n, missed)
		return err == nil
	}
	if _, exists := errors.AsType[*ExistsError](err); exists {
		return true
	}
	e.log.Warn("worker not registered", "worker", spec.URL, "error", err)
	return false
}

func (s *StartupWorkers) unique() []Spec {
	seen := map[string]bool{}
	var specs []Spec
	for _, spec := range s.specs {
		url := spec.URL
		if endpoint, err := ParseEndpoint(url); err == nil {
			url = endpoint.URL
		}
		if seen[url] {
			s.enroller.log.Warn("worker URL given twice, added once", "worker", url)
			continue
		}
		seen[url] = true
		specs = append(specs, spec)
	}
	return specs
}
