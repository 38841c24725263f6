package server

import "github.com/smg-go/smg/workers"

// JobConfig bounds the changes of the fleet that go on in the background.
type JobConfig struct {
	JobQueueCapacity    int `name:"job-queue-capacity" default:"1000" placeholder:"N" help:"Additions, updates and removals of workers that may wait for their turn, 1 to 1000000; the API refuses more, everything else waits."`
	JobQueueConcurrency int `name:"job-queue-concurrency" default:"200" placeholder:"N" help:"How many of them work at a time, 1 to 100000; also the probes of new workers at a time. Those that only wait, for an engine to load or a worker to drain, do not count."`
}

func defaultJobs() JobConfig {
	s := workers.DefaultJobSettings()
	return JobConfig{JobQueueCapacity: s.Capacity, JobQueueConcurrency: s.Concurrency}
}

// Jobs are the settings of the job queue.
func (c *JobConfig) Jobs() workers.JobSettings {
	return workers.JobSettings{Capacity: c.JobQueueCapacity, Concurrency: c.JobQueueConcurrency}
}

func (c *JobConfig) check(found *violations) {
	found.whole("--job-queue-capacity", int64(c.JobQueueCapacity), 1, 1_000_000)
	found.whole("--job-queue-concurrency", int64(c.JobQueueConcurrency), 1, 100_000)
}
