package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// Turn is the place of a running job among those that work. It belongs to the goroutine that runs the job.
type Turn struct {
	jobs *Jobs
	held bool
}

// Pause waits without a place, and returns when the job has one again. The error is that of ctx; then it has none.
func (t *Turn) Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t.yield()
	if err := pause(ctx, d); err != nil {
		return err
	}
	return t.take(ctx)
}

// yield gives the place away.
func (t *Turn) yield() {
	if !t.held {
		return
	}
	t.held = false
	t.jobs.mu.Lock()
	defer t.jobs.mu.Unlock()
	t.jobs.working--
	t.jobs.dispatch()
}

// take waits for a place.
func (t *Turn) take(ctx context.Context) error {
	j := t.jobs
	granted := make(chan struct{})
	j.mu.Lock()
	j.back = append(j.back, granted)
	j.dispatch()
	j.mu.Unlock()
	select {
	case <-granted:
		t.held = true
		return nil
	case <-ctx.Done():
	}
	j.mu.Lock()
	i := slices.Index(j.back, granted)
	if i >= 0 {
		j.back = slices.Delete(j.back, i, i+1)
	}
	j.mu.Unlock()
	if t.held = i < 0; t.held { // it came at the same moment
		t.yield()
	}
	return ctx.Err()
}

// run takes one job to its end.
func (j *Jobs) run(job *Job) {
	t := &Turn{jobs: j, held: true}
	ctx, cancel := context.WithTimeout(j.ctx, job.Limit)
	began := time.Now()
	err := j.guarded(ctx, t, job)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s was not over within %s: %w", job.Kind, job.Limit, err)
	}
	cancel()
	j.settled(job, began, err)
	j.complain(job, err)
	j.finish(job, err)
	t.yield() // after that: the place goes to the next of this line, if it is the first
	job.end(err)
}

// guarded runs a job; if it panics, that is its error.
func (j *Jobs) guarded(ctx context.Context, t *Turn, job *Job) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicked{cause}
			j.log.Error("a job panicked", "job", job.Kind, "worker", job.URL, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	return job.Run(ctx, t)
}

// panicked is the failure of a job that panicked. It has been logged with its stack.
type panicked struct{ cause any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.cause) }

// complain logs a failure that nobody else does: who asked for the job was told that it is accepted, and may never look at its status. One
// that was cut because the gateway stops is none.
func (j *Jobs) complain(job *Job, err error) {
	if err == nil || job.Tells || j.ctx.Err() != nil {
		return
	}
	if _, logged := errors.AsType[*panicked](err); !logged {
		j.log.Error("a job failed", "job", job.Kind, "worker", job.URL, "error", err)
	}
}

// finish ends a job in its line, and lets the next one of it come.
func (j *Jobs) finish(job *Job, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lines[job.Key]
	if l.running = nil; len(l.waiting) > 0 {
		j.heads = append(j.heads, l)
	} else {
		delete(j.lines, job.Key)
	}
	j.record(job, err)
	j.dispatch() // the job may have no place that it gives away
}

// record keeps a failure for those who ask. The lock is held.
func (j *Jobs) record(job *Job, err error) {
	switch {
	case err == nil:
		j.ledger.forget(job.Key)
	case !j.closed:
		text := err.Error()
		job.status.Status, job.status.Message, job.status.Timestamp = jobFailed, &text, time.Now().Unix()
		j.ledger.note(job.Key, job.status, j.sweep)
	}
}
