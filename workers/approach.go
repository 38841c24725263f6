package workers

import (
	"context"
	"fmt"
	"time"
)

// Time limits of what is asked at registration; probes have that of the health settings.
const (
	detectTimeout   = 10 * time.Second
	metadataTimeout = 10 * time.Second
	metadataTries   = 3
)

// approach is the part of a registration that asks the engine.
type approach struct {
	*Enroller
	*enrolment
	turn     *Turn
	settings Settings
	started  time.Time
	runtime  Runtime
	talk     *interview
}

// reach waits until the engine is healthy and known. Both share one deadline.
func (a *approach) reach(ctx context.Context) error {
	if err := a.awaitHealthy(ctx); err != nil {
		return err
	}
	if a.runtime = a.spec.RuntimeType; a.runtime != Unspecified {
		a.talk = newInterview(a.engine())
		return nil
	}
	return a.identify(ctx)
}

func (a *approach) engine() engine {
	return a.clients.to(&a.endpoint, a.spec.APIKey, a.settings.HTTPPool.HTTP2)
}

// awaitHealthy probes at the startup cadence: from start to start, but never two at once.
func (a *approach) awaitHealthy(ctx context.Context) error {
	for next := a.started; ; {
		err := a.asking(ctx, a.settings.Health.Timeout, func(ctx context.Context) error {
			return a.engine().probe(ctx, a.settings.Health.Endpoint)
		})
		if err == nil {
			return nil
		}
		if next = next.Add(a.startup.Interval); next.Before(time.Now()) {
			next = time.Now()
		}
		if err := a.retry(ctx, next, err); err != nil {
			return err
		}
	}
}

// identify asks what the engine is, more and more rarely.
func (a *approach) identify(ctx context.Context) error {
	for wait := time.Second; ; wait = min(wait+time.Second, 5*time.Second) {
		err := a.asking(ctx, detectTimeout, func(ctx context.Context) (err error) {
			a.talk = newInterview(a.engine())
			a.runtime, err = a.talk.detect(ctx)
			return err
		})
		if err == nil {
			return nil
		}
		if err := a.retry(ctx, time.Now().Add(wait), err); err != nil {
			return err
		}
	}
}

// retry waits for the next attempt; the error tells that there is none, and why the last one failed.
func (a *approach) retry(ctx context.Context, next time.Time, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if a.missed != nil {
		a.missed()
	}
	if next.Sub(a.started) >= a.startup.Timeout {
		if err := a.turn.Pause(ctx, time.Until(a.started.Add(a.startup.Timeout))); err != nil {
			return err
		}
		return fmt.Errorf("not up within %s: %w", a.startup.Timeout, cause)
	}
	a.log.Info("worker is not up yet", "worker", a.endpoint.URL, "error", cause, "retry_in", time.Until(next).Round(time.Millisecond))
	return a.turn.Pause(ctx, time.Until(next))
}

// asking calls ask with a time limit. The job has its place among those that work meanwhile, so that there are never more questions
// on the way than jobs at work.
func (*approach) asking(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ask(ctx)
}

// learn completes the spec by what the engine says of itself, or what is known of that after a few tries.
func (a *approach) learn(ctx context.Context) (Spec, error) {
	spec := a.spec
	spec.RuntimeType = a.runtime
	var labels map[string]string
	for try := 1; ; try++ {
		var complete bool
		_ = a.asking(ctx, metadataTimeout, func(ctx context.Context) error {
			labels, complete = a.talk.metadata(ctx, a.runtime)
			return nil
		})
		if ctx.Err() != nil {
			return spec, ctx.Err()
		}
		if complete || try == metadataTries {
			break
		}
		if err := a.turn.Pause(ctx, time.Second); err != nil {
			return spec, err
		}
	}
	spec.underlay(labels)
	if a.spec.RuntimeType == Unspecified && a.runtime == Generic {
		a.log.Warn("engine of unknown kind", "worker", a.endpoint.URL)
	}
	if spec.modelID() == "" {
		a.log.Warn("engine names no model, so it is sent requests for every model that no other worker serves", "worker", a.endpoint.URL)
	}
	return spec, nil
}
