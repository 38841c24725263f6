package workers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// JobSettings bound the changes of the fleet that go on in the background.
type JobSettings struct {
	Capacity    int // jobs that wait for their turn, at least 1
	Concurrency int // jobs that work at the same time, at least 1; one that only waits does not count
}

// DefaultJobSettings are those of a gateway without --job-queue-* flags.
func DefaultJobSettings() JobSettings { return JobSettings{Capacity: 1000, Concurrency: 200} }

// The kinds of jobs that change the fleet.
const (
	AddWorker    = "AddWorker"
	UpdateWorker = "UpdateWorker"
	RemoveWorker = "RemoveWorker"
)

// Job is one piece of background work. It is submitted once.
type Job struct {
	Kind  string                                   // what its status calls it
	Key   string                                   // jobs of one key run one after the other; those of workers have the address
	URL   string                                   // of the worker, as its status names it
	Limit time.Duration                            // its context ends so long after it has started, above 0
	Run   func(ctx context.Context, t *Turn) error // does the work; a panic is its failure
	Done  func(err error)                          // called once when it is over, [ErrClosed] if it never ran; nil is nobody
	Tells bool                                     // Run logs its failures itself; else the queue does

	status JobStatus // the queue's lock is held
}

// Jobs is a queue of jobs. Those of one key run one at a time, in the order in which they were submitted; of those of different
// keys, as many at a time as the settings say. A job that only waits gives its place to another ([Turn.Pause]).
//
// What waits in line costs its memory and no goroutine.
type Jobs struct {
	settings JobSettings
	log      *slog.Logger
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup
	metrics  *telemetry.FleetMetrics // nil: nothing is counted

	mu      sync.Mutex
	lines   map[string]*line // by key
	heads   []*line          // those whose first job may start, the first come first
	back    []chan struct{}  // jobs that have waited for something and want to go on; they come before heads
	blocked []*submission    // callers that wait until there is room
	pending int              // jobs that have not started
	working int              // jobs that have a place
	ledger  failures
	closed  bool
}

// line is the jobs of one key.
type line struct {
	running *Job
	waiting []*Job
}

// submission is a caller that waits for room.
type submission struct {
	job      *Job
	admitted chan struct{}
}

// QueueFullError says that no more jobs are taken now.
type QueueFullError struct{ Pending, Capacity int }

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("Job queue full: %d jobs pending (capacity: %d)", e.Pending, e.Capacity)
}

// NewJobs makes a queue; Close ends what it runs. A nil logger logs nothing.
func NewJobs(s JobSettings, log *slog.Logger) *Jobs {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Jobs{settings: s, log: log, ctx: ctx, stop: stop, lines: map[string]*line{}}
}

// Offer queues a job for a caller that must not wait. The error is a [*QueueFullError] or [ErrClosed]; then the job does not run,
// and is not told of.
func (j *Jobs) Offer(job *Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return ErrClosed
	case j.pending >= j.settings.Capacity:
		return &QueueFullError{j.pending, j.settings.Capacity}
	}
	j.enqueue(job)
	return nil
}

// Submit queues a job, and waits for room if there is none; who waits longest comes first. The error is [ErrClosed] or that of ctx.
func (j *Jobs) Submit(ctx context.Context, job *Job) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	if j.pending < j.settings.Capacity {
		j.enqueue(job)
		j.mu.Unlock()
		return nil
	}
	s := &submission{job, make(chan struct{})}
	j.blocked = append(j.blocked, s)
	j.mu.Unlock()

	var gone error
	select {
	case <-s.admitted:
		return nil
	case <-ctx.Done():
		gone = ctx.Err()
	case <-j.ctx.Done():
		gone = ErrClosed
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.blocked, s); i >= 0 {
		j.blocked = slices.Delete(j.blocked, i, i+1)
		return gone
	}
	return nil // it was let in at the same moment
}

// enqueue puts a job in line. The lock is held.
func (j *Jobs) enqueue(job *Job) {
	job.prepare()
	l := j.lines[job.Key]
	if l == nil {
		l = &line{}
		j.lines[job.Key] = l
	}
	l.waiting = append(l.waiting, job)
	j.pending++
	if l.running == nil && len(l.waiting) == 1 {
		j.heads = append(j.heads, l)
	}
	j.dispatch()
}

// dispatch gives free places away. The lock is held.
func (j *Jobs) dispatch() {
	for j.working < j.settings.Concurrency {
		switch {
		case len(j.back) > 0:
			close(j.back[0])
			j.back = j.back[1:]
			j.working++
		case len(j.heads) > 0 && !j.closed:
			l := j.heads[0]
			j.heads = j.heads[1:]
			j.start(l)
		default:
			return
		}
	}
}

// start runs the first job of a line. The lock is held.
func (j *Jobs) start(l *line) {
	job := l.waiting[0]
	l.waiting[0] = nil
	l.running, l.waiting = job, l.waiting[1:]
	job.status.Status, job.status.Timestamp = jobProcessing, time.Now().Unix()
	j.pending--
	j.working++
	j.running.Go(func() { j.run(job) })
	j.admit()
}

// Withdraw takes a job back that has not started; its Done hears err. withdrawn is false if it has.
func (j *Jobs) Withdraw(job *Job, err error) (withdrawn bool) {
	j.mu.Lock()
	l := j.lines[job.Key]
	at := -1
	if l != nil {
		at = slices.Index(l.waiting, job)
	}
	if at < 0 {
		j.mu.Unlock()
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	j.pending--
	if len(l.waiting) == 0 && l.running == nil {
		j.heads = slices.DeleteFunc(j.heads, func(o *line) bool { return o == l })
		delete(j.lines, job.Key)
	}
	j.admit()
	j.mu.Unlock()
	job.end(err)
	return true
}

// admit lets callers in that wait for room. The lock is held.
func (j *Jobs) admit() {
	for len(j.blocked) > 0 && j.pending < j.settings.Capacity {
		s := j.blocked[0]
		j.blocked = j.blocked[1:]
		close(s.admitted)
		j.enqueue(s.job)
	}
}

// Busy tells whether a job of that key waits or runs.
func (j *Jobs) Busy(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[key] != nil
}

// InFlight are the keys at which a job waits or runs. The map is the caller's.
func (j *Jobs) InFlight() map[string]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := make(map[string]bool, len(j.lines))
	for key := range j.lines {
		keys[key] = true
	}
	return keys
}

// Close ends the jobs that run, drops those that wait, and returns when all are over.
func (j *Jobs) Close() {
	j.mu.Lock()
	var dropped []*Job
	j.closed = true
	for key, l := range j.lines {
		dropped = append(dropped, l.waiting...)
		if l.waiting = nil; l.running == nil {
			delete(j.lines, key)
		}
	}
	j.heads, j.pending = nil, 0
	j.ledger.close()
	j.mu.Unlock()
	j.stop()
	for _, job := range dropped {
		job.end(ErrClosed)
	}
	j.running.Wait()
}

// prepare makes the status of a job that has not started.
func (job *Job) prepare() {
	job.status = JobStatus{JobType: job.Kind, WorkerURL: job.URL, Status: jobPending, Timestamp: time.Now().Unix()}
}

func (job *Job) end(err error) {
	if job.Done != nil {
		job.Done(err)
	}
}
