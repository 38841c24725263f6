package main

import (
	"context"
	"errors"
	"time"
)

// podsLimit is how long a fault of pods may go on after its time, to leave as many that serve as there were.
const podsLimit = 2 * time.Minute

// podDeleted takes pods away at once, and their engines die with them.
func podDeleted(ctx context.Context, s *scene) error {
	for pause(ctx, 100*time.Millisecond) {
		victim := s.pods.running[0]
		victim.engine.down()
		if err := errors.Join(s.pods.remove(victim), s.pods.start(), s.pods.await(context.WithoutCancel(ctx), true)); err != nil {
			return err
		}
	}
	return nil
}

// podUnready has pods fail their probes and recover, before a pass removes their workers, and after.
func podUnready(ctx context.Context, s *scene) error {
	lapses := []time.Duration{100 * time.Millisecond, 1500 * time.Millisecond, 400 * time.Millisecond}
	for i := 0; pause(ctx, 100*time.Millisecond); i++ {
		victim := s.pods.running[i%len(s.pods.running)]
		if err := s.pods.cluster.try(func() { s.pods.space.Unready(s.pods.cluster.stand, victim.Name) }); err != nil {
			return err
		}
		whole := context.WithoutCancel(ctx)
		pause(whole, lapses[i%len(lapses)])
		if err := s.pods.cluster.try(func() { s.pods.space.Ready(s.pods.cluster.stand, victim.Name, victim.IP) }); err != nil {
			return err
		}
		if err := s.pods.await(whole, true); err != nil {
			return err
		}
	}
	return nil
}

// podReplaced has pods end well, and others come at the same addresses, as in a StatefulSet with the network of its hosts.
func podReplaced(ctx context.Context, s *scene) error {
	for pause(ctx, 100*time.Millisecond) {
		old := s.pods.running[0]
		if err := errors.Join(s.pods.retire(old), old.engine.up(), s.pods.run(old.IP, old.engine)); err != nil {
			return err
		}
		if err := s.pods.await(context.WithoutCancel(ctx), true); err != nil {
			return err
		}
	}
	return nil
}

// podsRolled replaces all pods as a Deployment does, again and again.
func podsRolled(ctx context.Context, s *scene) error {
	for pause(ctx, 100*time.Millisecond) {
		if err := s.pods.roll(context.WithoutCancel(ctx), 1); err != nil {
			return err
		}
	}
	return nil
}
