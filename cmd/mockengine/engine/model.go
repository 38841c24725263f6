package engine

import (
	"slices"
	"time"
)

// ModelConfig says how fast an engine is and how much it holds. What is 0 gets the default that its comment names.
type ModelConfig struct {
	PrefillTPS    int           // prompt tokens a second that it computes; 16,000
	ITL           time.Duration // least time of a step, which makes one token for each request that decodes; 20 ms
	BatchSlowdown time.Duration // added to a step for each request that decodes; none below 0; 250 µs
	MaxRunning    int           // requests that run at once; 128
	KVTokens      int           // tokens that the KV cache holds; 400,000
	PageSize      int           // tokens of a page of it; 16
	PrefillChunk  int           // prompt tokens of one step; 1,024
}

// Complete is the configuration with the defaults in place of what is 0.
func (c ModelConfig) Complete() ModelConfig {
	fill := func(n *int, standard int) {
		if *n <= 0 {
			*n = standard
		}
	}
	fill(&c.PrefillTPS, 16_000)
	fill(&c.MaxRunning, 128)
	fill(&c.KVTokens, 400_000)
	fill(&c.PageSize, 16)
	fill(&c.PrefillChunk, 1024)
	if c.ITL <= 0 {
		c.ITL = 20 * time.Millisecond
	}
	if c.BatchSlowdown == 0 {
		c.BatchSlowdown = 250 * time.Microsecond
	}
	c.BatchSlowdown = max(0, c.BatchSlowdown)
	return c
}

// Pages is how many pages the KV cache has.
func (c ModelConfig) Pages() int { return c.KVTokens / c.PageSize }

// Job is one request as a [Model] sees it. Who submits it fills in the first part and leaves it alone until it is over. It may be
// submitted again then.
type Job struct {
	Pages  []uint64 // digests of the prompt's whole pages; see [PageDigests]
	Tokens int      // of the prompt; at least 1
	Output int      // tokens that it makes; below 1 counts as 1
	Owner  Owner    // is told of each token; may be nil
	Ends   bool     // it is told of the first and the last one alone

	Cached   int           // prompt tokens that were found in the cache; known once it runs
	Admitted time.Duration // when it began to run

	state    jobState
	computed int // prompt tokens that are found or computed
	held     grip
	reserved int    // pages beside those
	refused  uint64 // changes of the cache when there was no room for it
}

// decoding is a job that has its prompt. Most steps look at nothing else of it.
type decoding struct {
	job  *Job
	left int  // tokens to make
	mute bool // nobody is told before the last one
}

// Owner is told of the tokens of a job: k counts from 0 to Output-1, with which the job is over. It must not call the model.
type Owner interface {
	Token(j *Job, k int, at time.Duration)
}

type jobState uint8

const (
	jobOver jobState = iota // or not submitted yet
	jobWaits
	jobPrefills
	jobDecodes
)

// Model is an engine in time: first come first served, at most so many running; in each step it computes a chunk of the prompts that
// wait for it and one token for every request that has its prompt. A step takes as long as the larger of ITL and the chunk's tokens by
// the prefill speed, and a little more for each request that decodes. A request begins to run when it is the first in line, the step has
// tokens left, and prompt and whole answer fit into the cache. What a chunk computes can be reused from its step on; answers are
// not reused.
//
// A model has no goroutine and no clock: times are those that it is told, counted from any fixed moment. It is not safe for
// concurrent use.
type Model struct {
	cfg      ModelConfig
	cache    *KVCache
	waiting  []*Job // first in line first
	prefills []*Job // admitted, prompt not computed yet, in order
	decodes  []decoding
	finals   []*Job // those whose prompt the current step completes
	stepping bool
	ends     time.Duration // of the step
	totals   Totals
	rate     genRate
}

// Totals are what a model has done so far.
type Totals struct {
	Prompt    int64         // tokens of the requests that began to run
	Cached    int64         // those of them that were found in the cache
	Computed  int64         // prompt tokens that were computed
	Generated int64         // tokens that were made
	Busy      time.Duration // in steps
}

// NewModel makes an idle engine with a cache of its own, or with the given one.
func NewModel(cfg ModelConfig, shared *KVCache) *Model {
	cfg = cfg.Complete()
	if shared == nil {
		shared = NewKVCache(cfg.Pages())
	}
	return &Model{cfg: cfg, cache: shared}
}

// Config is the configuration, completed.
func (m *Model) Config() ModelConfig { return m.cfg }

// Totals is what it has done so far.
func (m *Model) Totals() Totals { return m.totals }

// Submit puts a job in line at a time that is not before any other that the model was told.
func (m *Model) Submit(now time.Duration, j *Job) {
	j.Tokens, j.Output = max(1, j.Tokens), max(1, j.Output)
	j.state, j.Cached, j.computed, j.refused = jobWaits, 0, 0, 0
	m.waiting = append(m.waiting, j)
	if !m.stepping {
		m.step(now)
	}
}

// Cancel takes a job out, at whatever point it is. A job that is over stays as it is.
func (m *Model) Cancel(j *Job) {
	was := j.state
	if was == jobOver {
		return
	}
	j.state = jobOver
	if was == jobWaits {
		m.waiting = without(m.waiting, j)
		return
	}
	m.prefills, m.finals = without(m.prefills, j), without(m.finals, j)
	m.decodes = slices.DeleteFunc(m.decodes, func(d decoding) bool { return d.job == j })
	m.give(j)
}

func without(list []*Job, j *Job) []*Job {
	if i := slices.Index(list, j); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// Next is when the next thing happens; ok is false while there is nothing to do.
func (m *Model) Next() (at time.Duration, ok bool) { return m.ends, m.stepping }

// Advance lets time pass up to now: steps that end by then end, their tokens are told, and others begin in their place.
func (m *Model) Advance(now time.Duration) {
	for m.stepping && m.ends <= now {
		m.finish(m.ends)
		m.step(m.ends)
	}
	if !m.stepping && len(m.waiting) > 0 {
		m.step(now) // it stands still because others hold the cache that it shares
	}
}

// give returns what a job holds of the cache.
func (m *Model) give(j *Job) {
	m.cache.release(j.held, j.reserved)
	j.held, j.reserved = j.held[:0], 0
}
