package engine

import "time"

// Load is what a model reports of itself.
type Load struct {
	Running       int
	Waiting       int
	WaitingTokens int     // prompt tokens in line that are not in the cache now
	Used          int     // tokens of the cache that running requests hold
	Capacity      int     // tokens of the cache
	Usage         float64 // Used by Capacity
	Throughput    float64 // generated tokens a second over the last steps; 0 while it has nothing to do
	HitRate       float64 // share of all prompt tokens so far that were cached
	RunningLimit  int
}

// Load is how things are at the last moment that the model was told of.
func (m *Model) Load() Load {
	l := Load{
		Running: m.running(), Waiting: len(m.waiting), RunningLimit: m.cfg.MaxRunning,
		Used: m.cache.held() * m.cfg.PageSize, Capacity: m.cache.capacity * m.cfg.PageSize,
	}
	l.Usage = float64(l.Used) / float64(l.Capacity)
	for _, j := range m.waiting {
		l.WaitingTokens += max(1, j.Tokens-m.cache.matched(j.Pages)*m.cfg.PageSize)
	}
	if m.stepping {
		l.Throughput = m.rate.value
	}
	if m.totals.Prompt > 0 {
		l.HitRate = float64(m.totals.Cached) / float64(m.totals.Prompt)
	}
	return l
}

// Progress is how many tokens it has computed of prompts that it has begun and not finished.
func (m *Model) Progress() int {
	tokens := 0
	for _, j := range m.prefills {
		tokens += j.computed - j.Cached
	}
	return tokens
}

// InFlight is the number of requests in line and running.
func (m *Model) InFlight() int { return m.running() + len(m.waiting) }

// rateSteps is over how many steps with tokens the speed is measured, as SGLang does.
const rateSteps = 40

// genRate measures tokens a second.
type genRate struct {
	value  float64
	since  time.Duration
	tokens int
	steps  int
}

func (r *genRate) add(tokens int, at time.Duration) {
	if tokens == 0 {
		return
	}
	r.tokens += tokens
	if r.steps++; r.steps < rateSteps {
		return
	}
	if took := (at - r.since).Seconds(); took > 0 {
		r.value = float64(r.tokens) / took
	}
	r.since, r.tokens, r.steps = at, 0, 0
}

// Held is the number of pages of its cache that running requests hold; of all engines that share it. It is 0 when all is over.
func (m *Model) Held() int { return m.cache.held() }
