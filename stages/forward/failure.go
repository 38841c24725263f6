package forward

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// unsent is the answer for a request that got no response head from its worker, and what it says about the leg.
func (f *forward) unsent(leg *pipeline.Leg, err error) error {
	if client, ok := errors.AsType[*uploadError](err); ok {
		leg.Outcome = pipeline.ClientFault
		return client.response
	}
	switch {
	case errors.Is(err, errInterrupted):
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	case errors.Is(err, errTimeout):
		return timedOut(leg, err)
	case errors.Is(err, errDial):
		return f.fail(leg, pipeline.Unreachable, "call_upstream_connection_failed", "The worker could not be reached", err)
	case errors.Is(err, errRequest):
		leg.Outcome = pipeline.NotSent
		return &pipeline.Error{
			Status: http.StatusInternalServerError, Code: "call_upstream_builder_error",
			Message: "The request to the worker could not be made", Terminal: true, Cause: blame(leg, err),
		}
	}
	return f.fail(leg, pipeline.Unreachable, "call_upstream_request_error", "The worker closed the connection without an answer", err)
}

// unread is the answer for a response that broke off before anything of it had gone to the client.
func (f *forward) unread(leg *pipeline.Leg, err error) error {
	switch {
	case errors.Is(err, errInterrupted):
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	case errors.Is(err, errTimeout):
		return timedOut(leg, err)
	}
	return f.fail(leg, pipeline.Broken, "read_response_body_failed", "The worker's answer broke off", err)
}

func (f *forward) fail(leg *pipeline.Leg, outcome pipeline.Outcome, code, message string, cause error) error {
	leg.Outcome, leg.Status = outcome, http.StatusBadGateway
	return &pipeline.Error{Status: http.StatusBadGateway, Code: code, Message: message, Cause: blame(leg, cause)}
}

func timedOut(leg *pipeline.Leg, cause error) error {
	leg.Outcome, leg.Status = pipeline.TimedOut, http.StatusGatewayTimeout
	return &pipeline.Error{
		Status: http.StatusGatewayTimeout, Code: "call_upstream_timeout",
		Message: "The worker did not answer in time", Cause: blame(leg, cause),
	}
}

// tooLarge is for an answer that does not fit into what may be kept of one.
func (f *forward) tooLarge(leg *pipeline.Leg) error {
	return f.fail(leg, pipeline.Broken, "upstream_response_too_large", "The worker's answer is larger than the gateway keeps", nil)
}

// blame names the worker in the cause, which is for the log alone.
func blame(leg *pipeline.Leg, cause error) error {
	if cause == nil {
		return fmt.Errorf("worker %s", leg.Worker.URL())
	}
	return fmt.Errorf("worker %s: %w", leg.Worker.URL(), cause)
}
