package workers

import (
	"fmt"
	"time"
)

// failureKept is how long a failed registration is told of at its address.
const failureKept = 300 * time.Second

// The states of a job.
const (
	jobPending    = "pending"
	jobProcessing = "processing"
	jobFailed     = "failed"
)

// enrolment is the registration of one worker, from its reservation on.
type enrolment struct {
	id       ID
	endpoint Endpoint
	spec     Spec
	job      JobStatus // the enroller's lock is held
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

// reserve takes the worker's address, so that nobody else adds it meanwhile. What is reserved must be run.
func (e *Enroller) reserve(spec Spec) (*enrolment, error) {
	endpoint, err := ParseEndpoint(spec.URL)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if other := e.adding[endpoint.Address]; other != nil && other.job.Status != jobFailed {
		return nil, &InProgressError{other.endpoint.URL, other.id}
	}
	// In this order: a registration ends with the worker in the registry first, and its reservation given up after that.
	if holder := e.registry.ByURL(endpoint.URL); holder != nil {
		return nil, &ExistsError{holder}
	}
	spec = spec.Clone()
	spec.URL, spec.ConnectionMode = endpoint.URL, endpoint.Mode
	n := &enrolment{id: NewID(), endpoint: endpoint, spec: spec}
	n.job = JobStatus{JobType: "AddWorker", WorkerURL: endpoint.URL, Status: jobPending, Timestamp: time.Now().Unix()}
	e.adding[endpoint.Address], e.byID[n.id] = n, n
	e.work.Add(1)
	return n, nil
}

func (e *Enroller) begin(n *enrolment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n.job.Status, n.job.Timestamp = jobProcessing, time.Now().Unix()
}

// end gives the reservation up. A failure is kept at the address for a while.
func (e *Enroller) end(n *enrolment, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byID, n.id)
	if err == nil {
		delete(e.adding, n.endpoint.Address)
		return
	}
	text := err.Error()
	n.job.Status, n.job.Message, n.job.Timestamp = jobFailed, &text, time.Now().Unix()
	e.forgetFailures()
}

// forgetFailures drops failures that are old. The lock is held.
func (e *Enroller) forgetFailures() {
	for address, n := range e.adding {
		if n.job.Status == jobFailed && time.Since(time.Unix(n.job.Timestamp, 0)) > failureKept {
			delete(e.adding, address)
		}
	}
}

// Describe is the worker with an id, as GET /workers/{id} shows it: registered, or still being added. ok is false if there is
// none, also when its registration has failed.
func (e *Enroller) Describe(id ID) (v View, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.byID[id]; n != nil {
		return n.view(e.settings), true
	}
	w := e.registry.ByID(id)
	if w == nil {
		return View{}, false
	}
	v = w.View()
	if job := e.removing[id]; job != nil {
		v.JobStatus = new(*job)
	} else {
		e.forgetFailures()
		if n := e.adding[w.endpoint.Address]; n != nil {
			v.JobStatus = new(n.job)
		}
	}
	return v, true
}

// view is what is shown of a worker that is not registered yet.
func (n *enrolment) view(s Settings) View {
	spec := n.spec.Clone()
	spec.APIKey = ""
	return View{ID: n.id.String(), Spec: spec, Status: Pending, HTTP2: n.spec.override(s).HTTPPool.HTTP2, JobStatus: new(n.job)}
}
