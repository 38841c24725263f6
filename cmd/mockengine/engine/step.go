package engine

import "time"

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
	m.prefills = m.prefills[:copy(m.prefills, m.prefills[begun:])]
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
	m.waiting = m.waiting[:copy(m.waiting, m.waiting[admitted:])]
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
	m.decodes = append(m.decodes, m.finals...)
	m.finals = m.finals[:0]
	kept := m.decodes[:0]
	for _, j := range m.decodes {
		j.state = jobDecodes
		k := j.made
		if j.made++; j.made < j.Output {
			kept = append(kept, j)
		} else {
			j.state = jobOver
			m.give(j)
		}
		if j.Owner != nil {
			j.Owner.Token(j, k, at)
		}
	}
	clear(m.decodes[len(kept):])
	m.decodes = kept
}
