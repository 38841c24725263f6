package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error ends a request with a response. A stage returns one and never writes the response itself.
type Error struct {
	Status     int           // 400 to 599
	Code       string        // stable, listed in docs/errors.md; also sent as X-SMG-Error-Code
	Message    string        // for the client: what happened, in one sentence
	Param      string        // the field of the request that is at fault; "" for none
	Terminal   bool          // true: the retry stage must not try again, whatever the status
	Prompt     bool          // true: the retry stage tries again without waiting (a lost race for a trial)
	RetryAfter time.Duration // sent in whole seconds, rounded up; 0 sends no header
	Fields     []Field       // further response headers, such as Allow
	Cause      error         // for the log and the span, with worker and attempt; the client never sees it
	Held       *Answer       // a worker's own answer, to be written as it is instead of the above
}

// Error is the code, the message and the cause, for logs.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s (%v)", e.Code, e.Message, e.Cause)
	}
	return e.Code + ": " + e.Message
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Answer is a worker's answer that was read to its end and not relayed, because another attempt may follow.
type Answer struct {
	Status   int
	Fields   []Field // as they go to the client: nothing that concerns the connection alone
	Body     []byte
	Trailers []Field
}

// ErrClientGone is what a stage returns when the client has left: there is nobody to answer.
var ErrClientGone = &Error{Status: 499, Code: "client_closed_request", Message: "The client closed the request", Terminal: true}

// AsError returns the response that err stands for. Any other error is a bug in a stage; its text is not for a client's eyes.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e != nil { // a nil *Error in an error is a mistake, and no reason to crash
		return e
	}
	return &Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "Internal error", Terminal: true, Cause: err}
}

// NoAvailableWorkers is the answer when workers serve the model, but none of them may be chosen now. It may be retried: a
// worker that restarts is back before the client has noticed. The message says what keeps the workers out.
func NoAvailableWorkers(x *Exchange) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: "no_available_workers",
		Message: Unavailable(x), RetryAfter: time.Second,
	}
}

// Unavailable is one sentence for the client: why none of the model's workers may be chosen now, and how many of them for each reason.
// The caller's own reasons come first.
func Unavailable(x *Exchange, reasons ...string) string {
	if x.Pool.Len() == 0 {
		return "No worker is registered"
	}
	for _, r := range []struct {
		count int
		text  string
	}{
		{x.Pool.NotReady() - x.Pool.Cordoned(), "unhealthy or draining"},
		{x.Pool.Cordoned(), "no longer wanted by discovery"},
		{x.Pool.Tripped(), "circuit breaker open"},
		{x.Pool.Overloaded(), "overloaded"},
	} {
		if r.count > 0 {
			reasons = append(reasons, fmt.Sprintf("%s: %d", r.text, r.count))
		}
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("None of the %d workers may be chosen for this request", x.Pool.Len())
	}
	return fmt.Sprintf("All %d workers are unavailable (%s)", x.Pool.Len(), strings.Join(reasons, ", "))
}

// Kind is the error's type as OpenAI clients know it.
func (e *Error) Kind() string {
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// Form makes the body of an error's response: content type and bytes. requestID is the id that the client is told.
type Form func(e *Error, requestID string) (contentType string, body []byte)

// OpenAIForm is the form of errors that clients of OpenAI-style routes understand.
func OpenAIForm(e *Error, _ string) (contentType string, body []byte) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	d := detail{Message: e.Message, Type: e.Kind(), Code: e.Code}
	if e.Param != "" {
		d.Param = &e.Param
	}
	body, _ = json.Marshal(struct {
		Error detail `json:"error"`
	}{d}) // strings alone: cannot fail
	return "application/json", body
}

// answer writes the response that e stands for. It is the one place that does; the caller has made sure that nothing was
// written before.
func (e *Error) answer(x *Exchange) error {
	if e.Code == ErrClientGone.Code {
		x.code = e.Code
		x.Client.Abort()
		return nil
	}
	if e.Held != nil {
		return e.Held.write(x)
	}
	x.code = e.Code
	kind, body := x.form()(e, x.ID)
	fields := append(make([]Field, 0, 4+len(e.Fields)), Field{"Content-Type", kind}, Field{"X-SMG-Error-Code", e.Code})
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		fields = append(fields, Field{"Retry-After", strconv.Itoa(int(seconds))})
	}
	fields = append(fields, e.Fields...)
	if err := x.WriteHead(e.Status, int64(len(body)), fields); err != nil {
		return err
	}
	_, err := x.Client.Write(body)
	return err
}

func (a *Answer) write(x *Exchange) error {
	length := int64(len(a.Body))
	if len(a.Trailers) > 0 {
		length = -1 // a body whose length was declared has no trailers
	}
	if err := x.WriteHead(a.Status, length, a.Fields); err != nil {
		return err
	}
	if _, err := x.Client.Write(a.Body); err != nil {
		return err
	}
	if len(a.Trailers) > 0 {
		x.Client.Trailers(a.Trailers)
	}
	return nil
}
