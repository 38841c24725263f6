package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
)

// registeredLimit is how long a large cluster may take until all its pods are registered.
const registeredLimit = 5 * time.Minute

// calm is how long smg is left alone before it is measured at rest.
const calm = 2 * time.Second

// large starts smg in a cluster of many Ready pods, and asks a worker that is none of them meanwhile; then it watches what status changes
// cost that change no worker.
func (r *discoveryRun) large(ctx context.Context, dir string) error {
	s, err := r.podless()
	if err != nil {
		return err
	}
	defer s.close()
	crowd, err := r.crowd(s.pods.space)
	if err != nil {
		return err
	}
	static, err := s.newEngine("static")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.startFor(ctx, s, dir, "--worker-urls", static.url); err != nil {
		return err
	}
	if err := r.registered(ctx, s, began); err != nil {
		return err
	}
	if !pause(ctx, calm) {
		return ctx.Err()
	}
	return r.steady(ctx, s, crowd)
}

// crowd makes the pods of a large cluster, each with an engine of its own; their model is another than that of the static worker.
func (r *discoveryRun) crowd(space *clustertest.Namespace) (crowd []clustertest.Pod, err error) {
	err = r.cluster.try(func() {
		for i, e := range clustertest.StartEngines(r.cluster.stand, r.Pods, engine.Config{Keep: -1, Models: []string{"crowd"}}) {
			crowd = append(crowd, clustertest.Pod{Name: fmt.Sprintf("crowd-%d", i), IP: e.IP, Labels: labelsOf(selected)})
		}
		space.Store(r.cluster.stand, crowd)
	})
	return crowd, err
}

// registered waits until all pods are workers that are ready. began is when smg was started.
func (r *discoveryRun) registered(ctx context.Context, s *scene, began time.Time) error {
	asking, enough := context.WithCancel(ctx)
	defer enough()
	var times []time.Duration
	var failure error
	var asker sync.WaitGroup
	asker.Go(func() { times, failure = s.keepAsking(asking, "m1") })
	err := s.awaitReady(ctx, r.Pods+1, registeredLimit)
	took := time.Since(began)
	enough()
	asker.Wait()
	u, unread := treeUsage(s.gateway.cmd.Process.Pid)
	quiet, cancel := context.WithTimeout(ctx, calm)
	defer cancel()
	after, late := s.keepAsking(quiet, "m1")
	if err := errors.Join(err, failure, unread, late); err != nil {
		return err
	}
	pods := fmt.Sprintf("%d Ready pods at start: ", r.Pods)
	r.report.add(discoveryRow{Measure: pods + "all registered", Value: took.Seconds(), Bar: 30, Unit: "s"})
	r.report.add(discoveryRow{Measure: pods + "peak memory", Value: mebibytes(u.Peak), Bar: 250, Unit: "MiB"})
	r.report.percentile(pods+"request to another worker meanwhile", times, 0.99, 0.1)
	slices.Sort(after)
	r.report.note("p50 %.3f s afterwards, p99 %.3f s", percentile(after, 0.5).Seconds(), percentile(after, 0.99).Seconds())
	return nil
}

// awaitReady waits until so many workers are registered and ready. It reads counts alone, whose cost does not grow with them.
func (s *scene) awaitReady(ctx context.Context, n int, limit time.Duration) error {
	var state struct {
		Healthy int `json:"healthy_workers"`
		Total   int `json:"total_workers"`
	}
	for began := time.Now(); time.Since(began) < limit; {
		err := s.call(ctx, http.MethodGet, "/readiness", "", &state, http.StatusOK, http.StatusServiceUnavailable)
		if err != nil || state.Healthy == n && state.Total == n {
			return err
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%d of %d workers are ready after %s: %s", state.Healthy, n, limit, s.gateway.output())
}

// keepAsking asks one question after the other until the context is done, and returns the times of those behind the first that was
// answered. From then on one without an answer is a failure.
func (s *scene) keepAsking(ctx context.Context, model string) (times []time.Duration, err error) {
	for pause(ctx, between) {
		began := time.Now()
		answered, err := s.ask(ctx, model)
		switch {
		case ctx.Err() != nil:
			return times, nil
		case err != nil, !answered && len(times) > 0:
			return times, errors.Join(fmt.Errorf("%s is not answered while pods are registered", model), err)
		case answered:
			times = append(times, time.Since(began))
		}
	}
	return times, nil
}

// steady measures the CPU time that is spent because the status of pods changes in what does not matter: what is spent meanwhile less
// what is spent at rest.
func (r *discoveryRun) steady(ctx context.Context, s *scene, crowd []clustertest.Pod) error {
	pid := s.gateway.cmd.Process.Pid
	atRest, err := coresOf(pid, func() error {
		pause(ctx, r.Steady/3)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	changes := 0
	busy, err := coresOf(pid, func() (err error) {
		changes, err = r.change(ctx, s.pods.space, crowd, time.Now().Add(r.Steady))
		return err
	})
	if err != nil {
		return err
	}
	r.report.add(discoveryRow{
		Measure: fmt.Sprintf("%d pods, %d status changes/s: CPU", r.Pods, r.Changes), Value: max(0, busy-atRest), Bar: 0.05, Unit: "cores",
		Note: fmt.Sprintf("%d changes; the whole process took %.3f cores, and %.3f at rest", changes, busy, atRest),
	})
	return nil
}

// coresOf is how many cores a process tree keeps busy on average while f runs.
func coresOf(pid int, f func() error) (float64, error) {
	before, err := treeUsage(pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	elapsed := time.Since(began)
	after, err := treeUsage(pid)
	return (after.CPU - before.CPU).Seconds() / elapsed.Seconds(), err
}

// change changes the status of one pod after the other, in a steady beat, and returns how often it has.
func (r *discoveryRun) change(ctx context.Context, space *clustertest.Namespace, crowd []clustertest.Pod, until time.Time) (changes int, err error) {
	var changing sync.WaitGroup
	failed := make([]error, 0, 1)
	var mu sync.Mutex
	beat := time.NewTicker(time.Second / time.Duration(r.Changes))
	defer beat.Stop()
	for ; time.Now().Before(until) && ctx.Err() == nil; changes++ {
		p, status := crowd[changes%len(crowd)], clustertest.Status{Phase: "Running", Ready: "True", Message: fmt.Sprintf("beat %d", changes)}
		status.IP = p.IP
		changing.Go(func() {
			if err := r.cluster.try(func() { space.SetStatus(r.cluster.stand, p.Name, status) }); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	changing.Wait()
	return changes, errors.Join(slices.Concat(failed, []error{ctx.Err()})...)
}

// without measures the memory of smg at rest with one worker and no discovery, whose code is in the binary.
func (r *discoveryRun) without(ctx context.Context, dir string) error {
	s, err := newScene(ctx, r.binary, dir)
	if err != nil {
		return err
	}
	defer s.close()
	if !pause(ctx, calm) {
		return ctx.Err()
	}
	u, err := treeUsage(s.gateway.cmd.Process.Pid)
	if err != nil {
		return err
	}
	r.report.add(discoveryRow{Measure: "idle memory without discovery", Value: mebibytes(u.RSS), Bar: 45, Unit: "MiB"})
	return nil
}

// rolling replaces all pods of a fleet under load, five at a time.
func (r *discoveryRun) rolling(ctx context.Context, dir string) error {
	s, err := newPodScene(ctx, r.binary, dir, r.cluster, r.Rolled)
	if err != nil {
		return err
	}
	defer s.close()
	load := s.crowd(fault{name: "rolling", pods: true, act: func(ctx context.Context, s *scene) error {
		return s.pods.roll(context.WithoutCancel(ctx), 5)
	}}, r.Clients, 0)
	if err := (&faultsCmd{Duration: time.Second}).under(ctx, load, s); err != nil {
		return err
	}
	row := load.tally()
	doubles, _ := s.witness.duplicated()
	r.report.lost, r.report.example = row.Lost, row.Example
	r.report.add(discoveryRow{
		Measure: fmt.Sprintf("rolling restart of %d pods under load: lost", r.Rolled), Value: float64(row.Lost), Unit: "requests", Samples: row.Sent,
		Note: fmt.Sprintf("%d sent, %d completed, %d lost, %d duplicated", row.Sent, row.Completed, row.Lost, doubles),
	})
	return nil
}
