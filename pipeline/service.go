package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// dependencies gathers what the chains use, by name; the dependencies' own included.
func dependencies(chains []*Chain) (map[string]Dependency, error) {
	wanted := map[string]Dependency{}
	var add func(d Dependency) error
	add = func(d Dependency) error {
		if other, known := wanted[d.Name()]; known {
			if other != d {
				return fmt.Errorf("two dependencies are named %q; chains that are served together share one value", d.Name())
			}
			return nil
		}
		wanted[d.Name()] = d
		if dependent, ok := d.(Dependent); ok {
			for _, below := range dependent.Uses() {
				if err := add(below); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, c := range chains {
		for _, s := range c.stages {
			for _, d := range ContractOf(s).Uses {
				if err := add(d); err != nil {
					return nil, err
				}
			}
		}
	}
	return wanted, nil
}

// service is a running dependency.
type service struct {
	dependency Dependency
	holders    int // generations whose chains use it; the runtime's lock is held
	cancel     context.CancelFunc
	done       chan struct{}
	ready      atomic.Bool
}

// start runs a dependency, once its last run is over: the same one never runs twice at once. before is nil for the first.
func start(d Dependency, log *slog.Logger, before *service) *service {
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{dependency: d, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if before != nil {
			<-before.done
		}
		s.supervise(ctx, log)
	}()
	return s
}

// stop ends all of them at once, and returns when they have ended.
func stop(services []*service) {
	for _, s := range services {
		s.cancel()
	}
	for _, s := range services {
		<-s.done
	}
}

// The pauses before a dependency that died is started again.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

func (s *service) supervise(ctx context.Context, log *slog.Logger) {
	backoff := firstBackoff
	for {
		began := time.Now()
		err := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.ready.Store(true)
			return
		}
		if time.Since(began) > lastBackoff {
			backoff = firstBackoff // it had worked for a while
		}
		log.Error("dependency died, starting it again", "dependency", s.dependency.Name(), "error", err, "backoff", backoff)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

func (s *service) run(ctx context.Context) (err error) {
	defer recoverTo(&err)
	return s.dependency.Run(ctx, func() { s.ready.Store(true) })
}
