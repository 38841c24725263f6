package forward

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/smg-go/smg/pipeline"
)

// unsent is the answer for a request that got no response head from its worker, and what it says about the leg.
func unsent(leg *pipeline.Leg, p *passage, err error) error {
	if ended := byClient(leg, p, err); ended != nil {
		return ended
	}
	switch {
	case errors.Is(err, errTimeout):
		return timedOut(leg, err)
	case errors.Is(err, errDial):
		return fail(leg, pipeline.Unreachable, "call_upstream_connection_failed", "The worker could not be reached", err)
	case errors.Is(err, errRequest):
		leg.Outcome = pipeline.NotSent
		return &pipeline.Error{
			Status: http.StatusInternalServerError, Code: "call_upstream_builder_error",
			Message: "The request to the worker could not be made", Cause: blame(leg, err),
		}
	}
	return fail(leg, pipeline.Unreachable, "call_upstream_request_error", "The worker closed the connection without an answer", err)
}

// unread is the answer for a response that broke off before anything of it had gone to the client.
func unread(leg *pipeline.Leg, p *passage, err error) error {
	if ended := byClient(leg, p, err); ended != nil {
		return ended
	}
	if errors.Is(err, errTimeout) {
		return timedOut(leg, err)
	}
	return fail(leg, pipeline.Broken, "read_response_body_failed", "The worker's answer broke off", err)
}

// byClient is the end of a request that the client itself has ended: by leaving, with an upload that went wrong, or with one so
// slow that the time ran out. nil if it was somebody else.
func byClient(leg *pipeline.Leg, p *passage, err error) error {
	if client, ok := errors.AsType[*uploadError](err); ok {
		leg.Outcome = pipeline.ClientFault
		return client.response
	}
	if errors.Is(err, errInterrupted) {
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	}
	if errors.Is(err, errTimeout) && p.upload.starves() {
		leg.Outcome = pipeline.ClientFault
		return UploadFailure(os.ErrDeadlineExceeded)
	}
	return nil
}

// fail keeps the status of the worker's head, if there was one.
func fail(leg *pipeline.Leg, outcome pipeline.Outcome, code, message string, cause error) error {
	leg.Outcome = outcome
	if leg.Status == 0 {
		leg.Status = http.StatusBadGateway
	}
	return &pipeline.Error{Status: http.StatusBadGateway, Code: code, Message: message, Cause: blame(leg, cause)}
}

func timedOut(leg *pipeline.Leg, cause error) error {
	leg.Outcome = pipeline.TimedOut
	if leg.Status == 0 {
		leg.Status = http.StatusGatewayTimeout
	}
	return &pipeline.Error{
		Status: http.StatusGatewayTimeout, Code: "call_upstream_timeout",
		Message: "The worker did not answer in time", Cause: blame(leg, cause),
	}
}

// tooLarge is for an answer that does not fit into what may be kept of one.
func tooLarge(leg *pipeline.Leg) error {
	return fail(leg, pipeline.Broken, "upstream_response_too_large", "The worker's answer is larger than the gateway keeps", nil)
}

// blame names the worker in the cause, which is for the log alone.
func blame(leg *pipeline.Leg, cause error) error {
	if cause == nil {
		return fmt.Errorf("worker %s", leg.Worker.URL())
	}
	return fmt.Errorf("worker %s: %w", leg.Worker.URL(), cause)
}
