package workers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// entry is what becomes of a worker that is found at the URL of an enrolment.
type entry uint8

const (
	create  entry = iota // there must be none
	upsert               // it is replaced
	replace              // it is replaced, if it still is the revision that the enrolment is bound to
)

// enrolment is the registration of one engine, from its reservation on.
type enrolment struct {
	id       ID
	endpoint Endpoint
	spec     Spec
	mode     entry
	revision uint64    // of the worker that it replaces
	source   string    // where the worker comes from, as the metrics call it
	asked    time.Time // when it was asked for

	ctx    context.Context // it is given up when that ends; nil: never
	giveUp func()          // ends ctx; nil: only who waits for it may
	missed func()          // called once, after the first attempt that did not reach the engine; nil: nobody cares
	job    *Job
	worker *Worker // what came of it
}

// InProgressError says that a worker at the same address is being added.
type InProgressError struct {
	URL string // of the worker that is being added
	ID  ID     // that it will have
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("Worker creation already in progress for URL '%s' with ID %s. Poll GET /workers/%[2]s.", e.URL, e.ID)
}

// NotFoundError says that no worker with this id is registered.
type NotFoundError struct{ ID ID }

func (e *NotFoundError) Error() string { return fmt.Sprintf("Worker %s not found", e.ID) }

func (e *Enroller) newEnrolment(spec Spec, mode entry) (*enrolment, error) {
	endpoint, err := ParseEndpoint(spec.URL)
	if err != nil {
		return nil, err
	}
	spec = spec.Clone()
	spec.URL, spec.ConnectionMode = endpoint.URL, endpoint.Mode
	n := &enrolment{id: NewID(), endpoint: endpoint, spec: spec, mode: mode, source: telemetry.SourceAPI, asked: time.Now()}
	n.job = &Job{
		Kind: AddWorker, Key: endpoint.Address, URL: endpoint.URL, Limit: e.startup.limit(),
		Run:  func(ctx context.Context, t *Turn) error { return e.run(ctx, t, n) },
		Done: func(error) { e.forget(n) }, Tells: true,
	}
	n.job.prepare()
	return n, nil
}

// reserve takes the worker's address, so that nobody else adds it meanwhile. What is reserved must be run or forgotten.
func (e *Enroller) reserve(spec Spec) (*enrolment, error) {
	n, err := e.newEnrolment(spec, create)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range e.adding[n.endpoint.Address] {
		if other.mode != replace { // that is of a worker that exists
			return nil, &InProgressError{other.endpoint.URL, other.id}
		}
	}
	// In this order: a registration ends with the worker in the registry first, and its reservation given up after that.
	if holder := e.holder(n); holder != nil {
		return nil, &ExistsError{holder}
	}
	e.holdLocked(n)
	return n, nil
}

// holder is a registered worker that has the URL of an enrolment, or is a rank of the engine at it.
func (e *Enroller) holder(n *enrolment) *Worker {
	if w := e.registry.ByURL(n.endpoint.URL); w != nil || n.oneRank() {
		return w
	}
	for _, w := range e.registry.ByAddress(n.endpoint.Address) {
		if w.endpoint.Base == n.endpoint.Base {
			return w
		}
	}
	return nil
}

// oneRank tells whether an enrolment is of one rank of its engine alone.
func (n *enrolment) oneRank() bool {
	_, ranked := n.endpoint.rank()
	return ranked
}

func (e *Enroller) hold(n *enrolment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holdLocked(n)
}

func (e *Enroller) holdLocked(n *enrolment) {
	e.adding[n.endpoint.Address] = append(e.adding[n.endpoint.Address], n)
	if n.mode != replace {
		e.byID[n.id] = n
	}
}

// abandon gives the replacements of a worker up: it is about to be removed, which must not wait for an engine that may never answer.
func (e *Enroller) abandon(w *Worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.adding[w.endpoint.Address] {
		if n.giveUp != nil && n.id == w.id {
			n.giveUp()
		}
	}
}

// forget gives the reservation up; once more changes nothing.
func (e *Enroller) forget(n *enrolment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.giveUp != nil {
		n.giveUp()
	}
	if e.byID[n.id] == n {
		delete(e.byID, n.id)
	}
	address := n.endpoint.Address
	e.adding[address] = slices.DeleteFunc(e.adding[address], func(o *enrolment) bool { return o == n })
	if len(e.adding[address]) == 0 {
		delete(e.adding, address)
	}
}

// Describe is the worker with an id, as GET /workers/{id} shows it: registered, or still being added. ok is false if there is
// none, also when its registration has failed.
func (e *Enroller) Describe(id ID) (v View, ok bool) {
	e.mu.Lock()
	n := e.byID[id]
	e.mu.Unlock()
	w := e.registry.ByID(id)
	switch {
	case w != nil:
		v = w.View()
		if job, ok := e.jobs.Status(w.endpoint.Address); ok {
			v.JobStatus = &job
		}
		return v, true
	case n != nil:
		return n.view(e.settings, e.jobs), true
	}
	return View{}, false
}

// view is what is shown of a worker that is not registered yet.
func (n *enrolment) view(s Settings, jobs *Jobs) View {
	spec := n.spec.Clone()
	spec.APIKey = ""
	return View{
		ID: n.id.String(), Spec: spec, Status: Pending, HTTP2: n.spec.override(s).HTTPPool.HTTP2, JobStatus: new(jobs.statusOf(n.job)),
	}
}
