package workers

// probation is the count of a worker's probe results. Who holds it applies one result at a time.
type probation struct {
	failures  int // in a row, since the last change of state
	successes int // in a row
	pending   int // probes launched while the worker was pending
}

// apply counts a result and tells the state that the worker moves to; the state that it has if nothing changes. pending tells
// that the worker was pending when the probe was launched.
func (p *probation) apply(ok, pending bool, now Status, s HealthSettings) Status {
	if pending {
		p.pending++
	}
	to := now
	if ok {
		to = p.succeed(now, s)
	} else {
		to = p.fail(now, s)
	}
	if to == now && now == Pending && p.pending >= 10*s.FailureThreshold {
		*p = probation{pending: p.pending}
		return Failed
	}
	return to
}

func (p *probation) succeed(now Status, s HealthSettings) Status {
	p.failures = 0
	p.successes++
	if now == Ready || now == Draining || p.successes < s.SuccessThreshold {
		return now
	}
	*p = probation{}
	return Ready
}

func (p *probation) fail(now Status, s HealthSettings) Status {
	p.successes = 0
	p.failures++
	switch {
	case now == Ready && p.failures >= s.FailureThreshold:
		p.failures = 0
		return NotReady
	case now == NotReady && p.failures >= 3*s.FailureThreshold:
		p.failures = 0
		return Failed
	}
	return now
}
