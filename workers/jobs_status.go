package workers

import "time"

// The states of a job.
const (
	jobPending    = "pending"
	jobProcessing = "processing"
	jobFailed     = "failed"
)

// JobStatus is the state of background work on a worker.
type JobStatus struct {
	JobType   string  `json:"job_type"` // AddWorker, UpdateWorker or RemoveWorker
	WorkerURL string  `json:"worker_url"`
	Status    string  `json:"status"`    // pending, processing or failed
	Message   *string `json:"message"`   // why it failed, else null
	Timestamp int64   `json:"timestamp"` // seconds since 1970: the last change
}

const (
	failureKept  = 300 * time.Second // how long a failure is told of at its key, at least
	failureSwept = 60 * time.Second  // how often old ones are looked for
)

// failures are the jobs that ended badly not long ago, the last one of each key. The queue's lock is held.
type failures struct {
	byKey map[string]failure
	timer *time.Timer // nil: there is nothing to sweep
	ended bool
}

type failure struct {
	status JobStatus
	at     time.Time
}

// note keeps a failure; sweep is called from time to time as long as there is one.
func (f *failures) note(key string, s JobStatus, sweep func()) {
	if f.byKey == nil {
		f.byKey = map[string]failure{}
	}
	f.byKey[key] = failure{s, time.Now()}
	if f.timer == nil && !f.ended {
		f.timer = time.AfterFunc(failureSwept, sweep)
	}
}

func (f *failures) forget(key string) { delete(f.byKey, key) }

// close stops the sweeping.
func (f *failures) close() {
	f.ended = true
	if f.timer != nil {
		f.timer.Stop()
	}
}

// sweep drops failures that are old, and comes back while there are others.
func (j *Jobs) sweep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := &j.ledger
	for key, kept := range f.byKey {
		if time.Since(kept.at) >= failureKept {
			delete(f.byKey, key)
		}
	}
	f.timer = nil
	if len(f.byKey) > 0 && !f.ended {
		f.timer = time.AfterFunc(failureSwept, j.sweep)
	}
}

// Status is the state of the jobs of a key: that of the one that runs, else of the first that waits, else of the last that failed.
// ok is false if there is none of these.
func (j *Jobs) Status(key string) (s JobStatus, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l := j.lines[key]; l != nil {
		if l.running != nil {
			return l.running.status, true
		}
		return l.waiting[0].status, true
	}
	kept, ok := j.ledger.byKey[key]
	return kept.status, ok
}

// statusOf is the state of one job.
func (j *Jobs) statusOf(job *Job) JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return job.status
}
