package workers

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// poll is the polling of one engine: when, how, and for which workers. The monitor's lock is held.
type poll struct {
	appointment
	base     string
	members  []*Worker // ready ones; several if ranks are workers of their own
	source   *loadSource
	lot      float64       // its place in each round, from 0 to 1
	interval time.Duration // of the last launch
	again    bool          // a worker has come while the engine was being asked
	off      bool
}

// sortie is one poll on its way.
type sortie struct {
	poll     *poll
	source   *loadSource // what the poll had then: another one means that a worker has left meanwhile
	members  []*Worker
	interval time.Duration
	idle     bool // nobody wants the load: it is not asked for
}

// loadGroup is the ready workers of one model, type and connection mode, which share an interval.
type loadGroup struct {
	members  map[*Worker]struct{}
	interval time.Duration
	ceilings int // members that have an overload ceiling
}

// launch takes the next poll that is due. ok is false if there is none, or no place for it.
func (m *LoadMonitor) launch() (l sortie, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.flying >= maxPolls || len(m.agenda) == 0 || m.agenda[0].due.After(now) {
		return sortie{}, false
	}
	p := heap.Pop(&m.agenda).(*poll)
	first := p.interval == 0
	p.interval = m.intervalOf(p)
	p.due = m.round(p, now.Add(p.interval/2)) // in the next round, or in the one after it if this poll is a little early
	if first {
		p.due = m.round(p, now)
	}
	l = sortie{poll: p, source: p.source, members: slices.Clone(p.members), interval: p.interval, idle: !m.wanted(p)}
	if l.idle {
		heap.Push(&m.agenda, p)
	} else {
		m.flying++
	}
	return l, true
}

// round is when a poll has its place in the first round whose place is later than now. Rounds begin an interval apart. The few engines
// of a small fleet are asked at almost the same time in each, so that their reports can be compared; more are spread, a wide fleet over
// the whole interval.
func (m *LoadMonitor) round(p *poll, now time.Time) time.Time {
	spread := float64(p.interval) * min(1, float64(len(m.polls))/wideFleet)
	before := m.began.Add(time.Duration(p.lot*spread) - p.interval)
	return before.Add(now.Sub(before).Truncate(p.interval) + p.interval)
}

// release gives the place of a poll to another one.
func (m *LoadMonitor) release() {
	m.mu.Lock()
	m.flying--
	m.mu.Unlock()
	m.alarm.rouse()
}

// land ends a poll; the next is due at its time. What was missed meanwhile is not made up for.
func (m *LoadMonitor) land(p *poll) {
	m.mu.Lock()
	if !p.off {
		if late := time.Since(p.due); late > 0 && !p.again {
			p.due = p.due.Add(late.Truncate(p.interval) + p.interval)
		}
		p.again = false
		heap.Push(&m.agenda, p)
	}
	m.mu.Unlock()
	m.alarm.rouse()
}

// current tells whether what a poll has found is of those who are there now.
func (m *LoadMonitor) current(l sortie) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !l.poll.off && l.poll.source == l.source
}

// pause is how long nothing is to be done, unless the alarm is roused.
func (m *LoadMonitor) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flying >= maxPolls || len(m.agenda) == 0 {
		return time.Hour // a place that gets free, or a new worker, rouses
	}
	return time.Until(m.agenda[0].due)
}

// intervalOf is the shortest interval of the groups that a poll's workers are in.
func (m *LoadMonitor) intervalOf(p *poll) time.Duration {
	interval := m.groups[groupOf(p.members[0])].interval
	for _, w := range p.members[1:] {
		interval = min(interval, m.groups[groupOf(w)].interval)
	}
	return interval
}

// wanted tells whether a poll is needed: by somebody who reads loads, or by the overload protection of a group.
func (m *LoadMonitor) wanted(p *poll) bool {
	return m.settings.Wanted() || slices.ContainsFunc(p.members, func(w *Worker) bool { return m.groups[groupOf(w)].ceilings > 0 })
}

func groupOf(w *Worker) slot { return slot{w.model, w.Type(), w.Mode()} }

var _ Listener = (*LoadMonitor)(nil)

// WorkerAdded begins to poll a worker that is ready.
func (m *LoadMonitor) WorkerAdded(w *Worker) {
	if w.Ready() {
		m.join(w)
	}
}

// WorkerReplaced begins anew with the new revision.
func (m *LoadMonitor) WorkerReplaced(was, now *Worker) {
	m.leave(was)
	m.WorkerAdded(now)
}

// WorkerRemoved ends the polling of a worker.
func (m *LoadMonitor) WorkerRemoved(w *Worker) { m.leave(w) }

// WorkerStatus begins to poll a worker that becomes ready, and ends it with one that is not any more.
func (m *LoadMonitor) WorkerStatus(w *Worker, from, to Status) {
	switch Ready {
	case to:
		m.join(w)
	case from:
		m.leave(w)
	}
}

// join puts a worker on the agenda, due at once.
func (m *LoadMonitor) join(w *Worker) {
	if w.Mode() != HTTP || w.spec.RuntimeType == External {
		return
	}
	m.mu.Lock()
	base := w.endpoint.Base
	p := m.polls[base]
	if p == nil {
		p = &poll{base: base, source: m.newSource(w), lot: rand.Float64(), appointment: appointment{place: -1}}
		m.polls[base] = p
		heap.Push(&m.agenda, p)
	}
	if !slices.Contains(p.members, w) {
		p.members = append(p.members, w)
		m.enlist(w)
		p.due, p.again = time.Now(), p.place < 0
	}
	if p.place >= 0 {
		heap.Fix(&m.agenda, p.place)
	}
	m.mu.Unlock()
	m.alarm.rouse()
}

// leave takes a worker off; what is known of how to ask its engine is forgotten, for it may come back as another one.
func (m *LoadMonitor) leave(w *Worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.polls[w.endpoint.Base]
	if p == nil || !slices.Contains(p.members, w) {
		return
	}
	p.members = slices.DeleteFunc(slices.Clone(p.members), func(o *Worker) bool { return o == w })
	m.discharge(w)
	if len(p.members) > 0 {
		p.source = m.newSource(p.members[0])
		return
	}
	delete(m.polls, p.base)
	p.off = true
	if p.place >= 0 {
		heap.Remove(&m.agenda, p.place)
	}
}

func (m *LoadMonitor) newSource(w *Worker) *loadSource {
	return &loadSource{engine: m.clients.to(&w.endpoint, w.spec.APIKey, w.settings.HTTPPool.HTTP2), runtime: w.spec.RuntimeType}
}

// enlist adds a worker to its group.
func (m *LoadMonitor) enlist(w *Worker) {
	key := groupOf(w)
	g := m.groups[key]
	if g == nil {
		g = &loadGroup{members: map[*Worker]struct{}{}, interval: m.settings.Interval}
		m.groups[key] = g
	}
	g.members[w] = struct{}{}
	if w.settings.Overload.On() {
		g.ceilings++
	}
	m.recompute(g, w)
}

func (m *LoadMonitor) discharge(w *Worker) {
	key := groupOf(w)
	g := m.groups[key]
	delete(g.members, w)
	if w.settings.Overload.On() {
		g.ceilings--
	}
	if len(g.members) == 0 {
		delete(m.groups, key)
		return
	}
	m.recompute(g, w)
}

// recompute finds a group's interval, after a worker came or went that may ask for one. A shorter one begins now.
func (m *LoadMonitor) recompute(g *loadGroup, changed *Worker) {
	if changed.spec.LoadMonitorIntervalSecs == nil {
		return
	}
	shortest := time.Duration(0)
	for w := range g.members {
		if own := w.spec.LoadMonitorIntervalSecs; own != nil {
			asked := max(leastGap, time.Duration(*own)*time.Second)
			if shortest == 0 || asked < shortest {
				shortest = asked
			}
		}
	}
	if shortest == 0 {
		shortest = m.settings.Interval
	}
	was := g.interval
	if g.interval = shortest; shortest < was {
		m.hasten(g)
	}
}

// hasten brings the next polls of a group nearer that would be later than its interval.
func (m *LoadMonitor) hasten(g *loadGroup) {
	now := time.Now()
	for w := range g.members {
		p := m.polls[w.endpoint.Base]
		if p.place >= 0 && p.due.Sub(now) > g.interval {
			p.interval = g.interval
			p.due = m.round(p, now)
			heap.Fix(&m.agenda, p.place)
		}
	}
	m.alarm.rouse()
}
