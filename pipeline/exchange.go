package pipeline

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/smg-go/smg/workers"
)

// Exchange is one request on its way: the client, what stages have found out, and the current attempt. It is reused after its
// request; a stage keeps nothing of it.
type Exchange struct {
	Client  Client    // the only door to the other side
	Arrived time.Time // when the chain got the request

	ID     string        // the request id
	Tenant string        // whom the request is counted for, such as "auth:acme"; "" in a chain that does not find out
	Body   RequestBody   // what the client sent
	Model  string        // the canonical id of the model, "" if the request names none
	Asked  string        // the model as the client named it
	Served bool          // some registered worker names the model
	Prompt RoutingPrompt // what policies may know of the prompt
	Key    RoutingKey    // the routing key

	Attempt // made anew by the retry stage: what is found behind it lives here

	Judge   Judge        // who decides whether an answer is held back; nil: every answer is relayed
	Explain *Explanation // not nil: filters and policies note what they did
	DryRun  bool         // nothing is booked, counted or recorded

	// Measured tells that of this request, one of many, is measured what costs time to measure. A stage sets it that stands first.
	Measured bool

	// Withheld tells that the client's Authorization is for the gateway alone: no worker may see it.
	Withheld bool

	chain     *Chain
	trace     Trace         // nil: nothing is recorded
	timed     bool          // the record wants to hear of stages
	behind    time.Duration // spent behind the stage that runs, or waiting for others
	waited    time.Duration // spent waiting for others, if it is measured
	overhead  time.Duration // from the arrival to the head, without that
	status    int           // of the response head that was written, 0 before
	headAt    time.Time     // when it was written
	code      string        // of the error that was answered
	concluded bool
	base      int // how many watchers were there before the first attempt
	watchers  []Watcher
	cells     []clearer
	scratch   []*workers.Worker
	kept      int // the most that Keep has put into scratch
	tried     []*workers.Worker
	charged   []*workers.Worker
}

// Attempt is what one attempt has found out.
type Attempt struct {
	Number     int          // from 1
	Pool       workers.List // all workers of the model
	Candidates workers.List // those that may be chosen
	Legs       Legs         // whom it goes to
}

// Judge is asked about every response head before it is relayed.
type Judge interface {
	// Hold tells forward to read the answer and return it as an error instead of relaying it, because another attempt may
	// follow.
	Hold(x *Exchange, leg *Leg, status int) bool
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// BeginAttempt starts an attempt: what was found out for the one before is forgotten.
func (x *Exchange) BeginAttempt() {
	if x.Number == 0 {
		x.base = len(x.watchers)
	}
	x.Number++
	x.Pool, x.Candidates = workers.List{}, workers.List{}
	x.Legs.clear()
	clear(x.watchers[x.base:])
	x.watchers = x.watchers[:x.base]
}

// Keep narrows the candidates to those that satisfy f, and returns them. They live in the exchange's scratch: the list is
// valid until the next Keep.
func (x *Exchange) Keep(f func(*workers.Worker) bool) workers.List {
	kept := x.Candidates.Keep(x.scratch[:0], f)
	x.scratch = kept.Members()
	x.kept = max(x.kept, len(x.scratch))
	return kept
}

// Target is the worker whose answer the client gets; nil before one was chosen.
func (x *Exchange) Target() *workers.Worker {
	if leg := x.Legs.Last(); leg != nil {
		return leg.Worker
	}
	return nil
}

// Try notes that the request was sent to a worker.
func (x *Exchange) Try(w *workers.Worker) {
	if !x.Tried(w) {
		x.tried = append(x.tried, w)
	}
}

// Tried tells whether an attempt of this request was sent to the worker.
func (x *Exchange) Tried(w *workers.Worker) bool { return contains(x.tried, w) }

// TriedCount is the number of workers that the request was sent to.
func (x *Exchange) TriedCount() int { return len(x.tried) }

// Charge tells whether a failure may be charged to the worker's breaker: the first of this request, and no other.
func (x *Exchange) Charge(w *workers.Worker) bool {
	if contains(x.charged, w) {
		return false
	}
	x.charged = append(x.charged, w)
	return true
}

func contains(list []*workers.Worker, w *workers.Worker) bool {
	for _, m := range list {
		if m == w || m.ID() == w.ID() { // another revision of it is the same engine
			return true
		}
	}
	return false
}

// WriteHead writes the response head; see [Client.WriteHead]. Every stage that answers writes it here.
func (x *Exchange) WriteHead(status int, contentLength int64, fields []Field) error {
	x.status, x.headAt = status, time.Now()
	if x.Measured {
		x.overhead = x.headAt.Sub(x.Arrived) - x.waited
	}
	return x.Client.WriteHead(status, contentLength, fields)
}

// Status is the status of the response head that was written; 0 if none was.
func (x *Exchange) Status() int { return x.status }

// HeadAt is when the response head was written; the zero time if none was.
func (x *Exchange) HeadAt() time.Time { return x.headAt }

// Overhead is how much of the time to the response head the gateway has taken itself: what is left without the waits that stages told
// of ([Exchange.Wait]). ok is false without a head, and for a request that is not measured.
func (x *Exchange) Overhead() (d time.Duration, ok bool) {
	return max(0, x.overhead), x.Measured && !x.headAt.IsZero()
}

// Result is how the request ended, as metrics and logs count it: the status and the code of the error, "" if there was none
// or a worker made it. err is what the chain, or the part of it behind the caller, returned. A client that has left is 499; a
// response that broke keeps the status of its head; once an error was answered, that is the result, whatever stages made of it.
func (x *Exchange) Result(err error) (status int, code string) {
	status, code = x.status, x.code
	if err != nil {
		e := AsError(err)
		if code == "" || e.Code == ErrClientGone.Code {
			code = e.Code
		}
		if status == 0 {
			status = e.Status
		}
	}
	if code == ErrClientGone.Code {
		status = ErrClientGone.Status
	}
	return status, code
}

// Conclude runs the rest of the chain and turns the error that it returns, or its panic, into the response, if nothing has
// been written yet; if something has, the response is cut visibly. If nobody behind it answers, that is an error too. A stage
// that must know the final response calls it in the place of next. The error is returned for the record; it has been dealt
// with.
func (x *Exchange) Conclude(next Next) error {
	err := x.protect(next)
	if err == nil && x.status == 0 && !x.DryRun {
		err = AsError(errNobodyAnswered)
	}
	if err == nil || x.concluded {
		return err
	}
	x.concluded = true
	if x.status != 0 {
		x.Client.Abort()
		return err
	}
	if failed := AsError(err).answer(x); failed != nil {
		x.Client.Abort() // what was written of the response is not all of it
		return ErrClientGone
	}
	return err
}

// errNobodyAnswered is a mistake in the chain: its last stage calls next, and there is none.
var errNobodyAnswered = errors.New("no stage answered the request")

func (x *Exchange) protect(next Next) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = AsError(&PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	return next(x)
}

// PanicError is the cause of the 500 that a stage's panic becomes.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

func (x *Exchange) form() Form {
	if x.chain != nil && x.chain.form != nil {
		return x.chain.form
	}
	return OpenAIForm
}

// reset makes the exchange ready for another request. Slices keep their memory, nothing of the request is kept alive.
func (x *Exchange) reset() {
	x.Legs.clear()
	x.Client, x.Arrived, x.ID, x.Body, x.Model, x.Asked, x.Served = nil, time.Time{}, "", RequestBody{}, "", "", false
	x.Prompt, x.Key, x.Judge, x.Explain, x.DryRun = RoutingPrompt{}, RoutingKey{}, nil, nil, false
	x.Tenant, x.Withheld, x.Measured, x.waited, x.overhead = "", false, false, 0, 0
	x.Number, x.Pool, x.Candidates = 0, workers.List{}, workers.List{}
	x.trace, x.timed, x.behind = nil, false, 0
	x.chain, x.status, x.headAt, x.code, x.concluded, x.base = nil, 0, time.Time{}, "", false, 0
	clear(x.watchers)
	clear(x.scratch[:x.kept]) // a later Keep may have left more behind than its own
	clear(x.tried)
	clear(x.charged)
	x.watchers, x.scratch, x.tried, x.charged = x.watchers[:0], x.scratch[:0], x.tried[:0], x.charged[:0]
	x.kept = 0
	for _, c := range x.cells {
		if c != nil {
			c.clear()
		}
	}
}
