package pipeline

import "time"

// Tracer records the requests of a route; [Chain.Traced] gives a chain that has one. A chain without pays nothing for there being
// tracers.
type Tracer interface {
	// Begin is called when the chain gets a request, before the first stage. It returns the request's record, nil for none, and
	// whether the record wants to hear of stages, which costs two looks at the clock for each.
	Begin(x *Exchange) (t Trace, timed bool)
}

// Trace is the record of one request. The calls come on the request's goroutine.
type Trace interface {
	// Stage is called when a stage has returned, or panicked. i is its place in the chain, from 0; began is counted from the
	// request's arrival; total is its time with that of the stages behind it, self without.
	Stage(x *Exchange, i int, s Stage, began, total, self time.Duration)
	// Send is called when a leg is about to be sent. The fields go to its worker in the place of the client's own trace context;
	// nil: the client's go.
	Send(x *Exchange, leg *Leg) []Field
	// Received is called when the leg is over. body is the end of the worker's answer, the whole of a short one, nil if there was
	// none; it is not kept.
	Received(x *Exchange, leg *Leg, body []byte)
	// IDs are the ids of trace and request, in hexadecimal; "" if nothing that others see has them.
	IDs() (trace, span string)
	// End is called when the request is over. err is what the chain returned.
	End(x *Exchange, err error)
}

// traced runs the chain under its tracer.
func (c *Chain) traced(x *Exchange) error {
	entry := c.entry
	if x.trace, x.timed = c.tracer.Begin(x); x.timed {
		entry = c.timed
	}
	err := x.Conclude(entry)
	if x.trace != nil {
		x.trace.End(x, err)
	}
	return err
}

// timedLink is link for requests whose stages are timed.
func timedLink(i int, s Stage, next Next) Next {
	return func(x *Exchange) error {
		before := x.behind
		x.behind = 0
		began := time.Since(x.Arrived)
		defer x.tellStage(i, s, began, before) // deferred: a panic takes its time as well
		return s.Handle(x, next)
	}
}

// tellStage tells the record of a stage that ends. before is what had been spent behind the stage in front of it until it began.
func (x *Exchange) tellStage(i int, s Stage, began, before time.Duration) {
	total := time.Since(x.Arrived) - began // a difference to the arrival: the monotonic clock alone is read
	x.trace.Stage(x, i, s, began, total, total-x.behind)
	x.behind = before + total
}

// Wait is called by a stage that begins to wait for somebody else, and Waited with what it returned when that is over: the time
// between is not the stage's own. Both do nothing for a request whose stages are not timed, and that is not measured.
func (x *Exchange) Wait() (since time.Time) {
	if x.timed || x.Measured {
		since = time.Now()
	}
	return since
}

// Waited ends a wait; see [Exchange.Wait].
func (x *Exchange) Waited(since time.Time) {
	if x.timed || x.Measured {
		took := time.Since(since)
		x.behind += took
		x.waited += took
	}
}

// Idled ends a wait like [Exchange.Waited], but one that is shown as the stage's own time: in the queue for admission, for the
// client's body, before another attempt.
func (x *Exchange) Idled(since time.Time) {
	if x.Measured {
		x.waited += time.Since(since)
	}
}

// TellSend is called by a forwarding stage before it sends a leg. The fields, if there are any, go to the worker in the place of
// the client's traceparent and tracestate.
func (x *Exchange) TellSend(leg *Leg) []Field {
	if x.trace == nil {
		return nil
	}
	return x.trace.Send(x, leg)
}

// TellReceived is called by a forwarding stage when a leg is over; see [Trace]. It is called once for each TellSend.
func (x *Exchange) TellReceived(leg *Leg, body []byte) {
	if x.trace != nil {
		x.trace.Received(x, leg, body)
	}
}

// TraceIDs are the ids of the request's trace and of the request in it, in hexadecimal; "" if it is not traced.
func (x *Exchange) TraceIDs() (trace, span string) {
	if x.trace == nil {
		return "", ""
	}
	return x.trace.IDs()
}
