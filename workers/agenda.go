package workers

import (
	"container/heap"
	"time"
)

// check is the probing of one worker: when, and what came of it. The health loop's lock is held.
type check struct {
	appointment
	worker *Worker // the newest revision
	off    bool
	probation
}

// launch is one probe.
type launch struct {
	check   *check
	worker  *Worker
	pending bool // what the worker was when it was launched
	at      time.Time
}

// soon is when a probe is made again that said nothing of its worker, at the latest.
const soon = time.Second

// launch takes the next probe that is due. ok is false if there is none, or as many as may be are in flight.
func (h *HealthLoop) launch() (l launch, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.flying >= maxProbes || len(h.agenda) == 0 || h.agenda[0].due.After(now) {
		return launch{}, false
	}
	c := heap.Pop(&h.agenda).(*check)
	c.due = now.Add(c.worker.settings.Health.Interval) // from launch to launch, so that the period does not drift
	h.flying++
	return launch{check: c, worker: c.worker, pending: c.worker.Status() == Pending, at: now}, true
}

// again brings the next probe of a worker nearer.
func (h *HealthLoop) again(c *check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if next := time.Now().Add(soon); c.due.After(next) {
		c.due = next
	}
}

// land ends a probe; the next is due at its time, or at once if that has passed meanwhile.
func (h *HealthLoop) land(c *check) {
	h.mu.Lock()
	h.flying--
	if !c.off {
		heap.Push(&h.agenda, c)
	}
	h.mu.Unlock()
	h.alarm.rouse()
}

// pause is how long nothing is to be done, unless the alarm is roused.
func (h *HealthLoop) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.flying >= maxProbes || len(h.agenda) == 0 {
		return time.Hour // the end of a probe, or a new worker, rouses
	}
	return time.Until(h.agenda[0].due)
}

var _ Listener = (*HealthLoop)(nil)

// WorkerAdded puts a worker on the schedule; its first probe is due at once.
func (h *HealthLoop) WorkerAdded(w *Worker) {
	if w.settings.Health.Disabled || w.Mode() != HTTP || w.Draining() {
		return
	}
	h.mu.Lock()
	if h.checks[w.id] == nil {
		c := &check{worker: w, appointment: appointment{due: time.Now()}}
		h.checks[w.id] = c
		heap.Push(&h.agenda, c)
	}
	h.mu.Unlock()
	h.alarm.rouse()
}

// WorkerReplaced goes on with the new revision's settings; its next probe is due at once. The counts are those of the old one, unless a
// registration has reached the engine meanwhile: then it is about to be ready, and what went before says nothing of it.
func (h *HealthLoop) WorkerReplaced(was, now *Worker) {
	h.mu.Lock()
	c := h.checks[was.id]
	if c == nil || now.settings.Health.Disabled {
		h.mu.Unlock()
		h.WorkerRemoved(was)
		h.WorkerAdded(now)
		return
	}
	c.worker, c.due = now, time.Now()
	if now.reached {
		c.probation = probation{}
	}
	if c.place >= 0 {
		heap.Fix(&h.agenda, c.place)
	}
	h.mu.Unlock()
	h.alarm.rouse()
}

// WorkerRemoved takes a worker off the schedule.
func (h *HealthLoop) WorkerRemoved(w *Worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.checks[w.id]
	if c == nil {
		return
	}
	delete(h.checks, w.id)
	c.off = true // the result of a probe in flight is thrown away
	if c.place >= 0 {
		heap.Remove(&h.agenda, c.place)
	}
}

// WorkerStatus takes a worker that begins to drain off the schedule.
func (h *HealthLoop) WorkerStatus(w *Worker, _, to Status) {
	if to == Draining {
		h.WorkerRemoved(w)
	}
}
