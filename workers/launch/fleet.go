package launch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"
)

// Options are what workers are started with.
type Options struct {
	Stdout, Stderr io.Writer    // what the workers print, with "[worker N] " before each line if there are several
	Log            *slog.Logger //
	// Adopt ends what a worker left behind outside its process group, too (Linux alone). This process becomes the parent of
	// such orphans, and kills all children that it has when the workers have ended: only for a program that starts nothing else.
	Adopt bool
}

// killLimit is how long a worker that was killed is waited for. One that hangs in a driver may never go.
const killLimit = 5 * time.Second

// Fleet is workers that have been started. It must be stopped.
type Fleet struct {
	Options
	processes []*process
	stopping  atomic.Bool
	exited    chan struct{} // closed when all have ended
}

// Start starts the workers and returns at once. If one cannot be started, those before it are killed.
func Start(workers []Worker, o Options) (*Fleet, error) {
	f := &Fleet{Options: o, exited: make(chan struct{})}
	if o.Adopt {
		if err := adoptOrphans(); err != nil {
			return nil, err
		}
	}
	failure := f.start(workers)
	go f.wait(workers)
	if failure != nil {
		f.Kill()
		return nil, failure
	}
	return f, nil
}

func (f *Fleet) start(workers []Worker) error {
	stdout, stderr := &sink{w: f.Stdout}, &sink{w: f.Stderr}
	prefix := ""
	for _, w := range workers {
		if len(workers) > 1 {
			prefix = fmt.Sprintf("[worker %d] ", w.Rank)
		}
		p, err := start(w, prefix, stdout, stderr)
		if err != nil {
			return err
		}
		f.processes = append(f.processes, p)
		f.Log.Info("worker started", "rank", w.Rank, "pid", p.cmd.Process.Pid, "worker", w.URL, "command", masked(w.Argv))
	}
	return nil
}

func (f *Fleet) wait(workers []Worker) {
	for _, p := range f.processes {
		<-p.exited
	}
	for _, w := range workers { // those that were not started too
		if w.held != nil {
			_ = w.held.Close()
		}
	}
	close(f.exited)
}

// Exited is closed when every worker has ended.
func (f *Fleet) Exited() <-chan struct{} { return f.exited }

// Stop asks the workers to end, kills those that are left when ctx ends, and returns when no process of theirs is there any
// more. It may be called again.
func (f *Fleet) Stop(ctx context.Context) {
	f.stopping.Store(true)
	f.signal(syscall.SIGTERM)
	select {
	case <-f.exited:
	case <-ctx.Done():
		f.kill()
	}
	if !f.Adopt {
		return
	}
	switch killed, gone := killChildren(); {
	case !gone:
		f.Log.Error("processes that workers left behind do not end")
	case killed > 0:
		f.Log.Warn("killed processes that workers left behind", "count", killed)
	}
}

// Kill ends the workers without asking.
func (f *Fleet) Kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.stopping.Store(true)
	f.signal(syscall.SIGKILL)
	f.Stop(ctx)
}

func (f *Fleet) kill() {
	f.signal(syscall.SIGKILL)
	select {
	case <-f.exited:
	case <-time.After(killLimit):
		f.Log.Error("workers that were killed do not end")
	}
}

func (f *Fleet) signal(sig syscall.Signal) {
	for _, p := range f.processes {
		p.signal(sig)
	}
}

// report logs the ends of workers that nobody asked to end.
func (f *Fleet) report() {
	for _, p := range f.processes {
		go func() {
			<-p.exited
			if !f.stopping.Load() {
				f.Log.Error("worker "+p.ending(), "rank", p.Rank, "worker", p.URL, "code", p.state.ExitCode())
			}
		}()
	}
}
