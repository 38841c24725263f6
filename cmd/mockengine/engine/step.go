package engine

import (
	"slices"
	"time"
)

// step begins a step, if there is anything to do.
func (m *Model) step(now time.Duration) {
	tokens := m.schedule(now)
	m.stepping = tokens > 0 || len(m.decodes) > 0
	if !m.stepping {
		return
	}
	prefill := time.Duration(float64(tokens) / float64(m.cfg.PrefillTPS) * float64(time.Second))
	took := max(m.cfg.ITL, prefill) + time.Duration(len(m.decodes))*m.cfg.BatchSlowdown
	m.ends = now + took
	m.totals.Busy += took
}

// schedule fills the step's chunk: prompts that were begun first, then those in line as long as they can begin. It returns the
// tokens of the chunk.
func (m *Model) schedule(now time.Duration) int {
	left := m.cfg.PrefillChunk
	begun := 0 // of the prompts under way, those that this step completes
	for _, j := range m.prefills {
		if left -= m.compute(j, left); left <= 0 && j.computed < j.Tokens {
			break
		}
		begun++
	}
	m.finals = append(m.finals, m.prefills[:begun]...)
	m.prefills = slices.Delete(m.prefills, 0, begun)
	admitted := 0
	for left > 0 && admitted < len(m.waiting) && m.admit(now, m.waiting[admitted]) {
		j := m.waiting[admitted]
		admitted++
		left -= m.compute(j, left)
		if j.computed < j.Tokens {
			m.prefills = append(m.prefills, j)
		} else {
			m.finals = append(m.finals, j)
		}
	}
	m.waiting = slices.Delete(m.waiting, 0, admitted)
	return m.cfg.PrefillChunk - left
}

// running is the number of requests that were admitted and are not over.
func (m *Model) running() int { return len(m.prefills) + len(m.finals) + len(m.decodes) }

// admit lets a job begin, if there is room.
func (m *Model) admit(now time.Duration, j *Job) bool {
	if m.running() >= m.cfg.MaxRunning || j.refused > 0 && j.refused == m.cache.changes {
		return false
	}
	needs := min((j.Tokens+j.Output+m.cfg.PageSize-1)/m.cfg.PageSize, m.cache.capacity) // one that is too large runs alone
	held, ok := m.cache.admit(j.held, j.Pages[:min(len(j.Pages), needs)], needs)
	j.held = held
	if !ok {
		j.refused = m.cache.changes
		return false
	}
	j.state, j.Admitted = jobPrefills, now
	j.reserved = needs - len(held)
	j.Cached = min(len(held)*m.cfg.PageSize, j.Tokens-1) // the last token is computed always: the first of the answer comes of it
	j.computed = j.Cached
	m.totals.Prompt += int64(j.Tokens)
	m.totals.Cached += int64(j.Cached)
	return true
}

// compute adds as much of a prompt to the step as is left of its chunk. Its pages can be found from now on.
func (m *Model) compute(j *Job, left int) int {
	n := min(left, j.Tokens-j.computed)
	j.computed += n
	m.totals.Computed += int64(n)
	for whole := min(j.computed/m.cfg.PageSize, len(j.Pages)); len(j.held) < whole && j.reserved > 0; j.reserved-- {
		j.held = m.cache.fill(j.held, j.Pages[len(j.held)])
	}
	return n
}

// finish ends a step: a token for all that have their prompt.
func (m *Model) finish(at time.Duration) {
	made := len(m.decodes) + len(m.finals)
	m.totals.Generated += int64(made)
	m.rate.add(made, at)
	for _, j := range m.finals {
		j.state = jobDecodes
		m.decodes = append(m.decodes, decoding{job: j, left: j.Output})
	}
	m.finals = m.finals[:0]
	kept := 0
	for i := range m.decodes {
		d := &m.decodes[i]
		if d.left--; d.left == 0 || !d.mute {
			m.tell(d, at)
		}
		if d.left > 0 {
			if kept < i {
				m.decodes[kept] = *d
			}
			kept++
		}
	}
	clear(m.decodes[kept:])
	m.decodes = m.decodes[:kept]
}

// tell is about the token that a job has made. If it was the last one the job is over.
func (m *Model) tell(d *decoding, at time.Duration) {
	j := d.job
	k := j.Output - 1 - d.left
	d.mute = j.Ends || j.Owner == nil
	if d.left == 0 {
		j.state = jobOver
		m.give(j)
	}
	if j.Owner != nil {
		j.Owner.Token(j, k, at)
	}
}
