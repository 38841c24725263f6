package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
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

// Run adds the workers, in order and many at a time, and returns nil when each is registered or has failed for good, or when ctx ends.
// It calls ready when each has been registered or has failed its first probe, and at most 5 s after the first was registered.
func (s *StartupWorkers) Run(ctx context.Context, ready func()) error {
	specs := s.unique()
	p := &progress{tried: make(chan struct{}, len(specs)), added: make(chan struct{}, len(specs))}
	p.work.Go(func() { s.announce(ctx, sync.OnceFunc(ready), len(specs), p.tried, p.added) })
	var jobs []*Job
	for _, spec := range specs {
		if job := s.submit(ctx, spec, p); job != nil {
			jobs = append(jobs, job)
		}
	}
	defer context.AfterFunc(ctx, func() {
		for _, job := range jobs {
			s.enroller.jobs.Withdraw(job, ctx.Err())
		}
	})()
	p.work.Wait()
	return nil
}

// progress is how far the workers have come.
type progress struct {
	work         sync.WaitGroup
	tried, added chan struct{} // one message for each worker
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

// submit begins to add a worker; nil if there is nothing to wait for. That it is registered already is as good.
func (s *StartupWorkers) submit(ctx context.Context, spec Spec, p *progress) *Job {
	e := s.enroller
	tried := sync.OnceFunc(func() { p.tried <- struct{}{} })
	n, err := e.reserve(spec)
	if err != nil {
		defer tried()
		if _, exists := errors.AsType[*ExistsError](err); exists {
			p.added <- struct{}{}
			return nil
		}
		e.log.Warn("worker not registered", "worker", spec.URL, "error", err)
		return nil
	}
	p.work.Add(1)
	n.ctx, n.missed, n.source = ctx, tried, telemetry.SourceStatic
	n.job.Done = func(err error) {
		defer p.work.Done()
		e.forget(n)
		tried()
		if err == nil {
			p.added <- struct{}{}
		}
	}
	if err := e.jobs.Submit(ctx, n.job); err != nil {
		n.job.end(err)
		return nil
	}
	return n.job
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
