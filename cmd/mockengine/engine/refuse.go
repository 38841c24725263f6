package engine

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// refuseHead answers a request that is not understood, and ends the connection; a peer that has left gets no answer.
func (c *conn) refuseHead(err error) error {
	status := 0
	switch {
	case errors.Is(err, errMalformed):
		status = http.StatusBadRequest
	case errors.Is(err, errHeadSize):
		status = http.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, errBodySize):
		status = http.StatusRequestEntityTooLarge
	default:
		return err
	}
	c.head, c.fault = head{close: true}, nil
	_ = c.send(status, plainType, []byte("Invalid HTTP request received."))
	return errHangUp
}

// refuse answers with an error in the engine's shape. An empty param is null.
func (c *conn) refuse(status int, kind, message, param string) error {
	b := c.text[:0]
	if c.e.cfg.Engine == VLLM {
		b = append(b, `{"error":{"message":"`...)
	} else {
		b = append(b, `{"object":"error","message":"`...)
	}
	b = append(b, escaped(message)...)
	b = append(b, `","type":"`...)
	b = append(b, kind...)
	b = append(b, `","param":`...)
	b = appendQuotedOrNull(b, param)
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	if c.e.cfg.Engine == VLLM {
		b = append(b, '}')
	}
	return c.send(status, jsonType, append(b, '}'))
}

// errorType is the type that goes with a status.
func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "InternalServerError"
	}
	return "BadRequestError"
}

func (c *conn) invalid(err error) error {
	return c.refuse(400, "Bad Request", fmt.Sprintf("1 validation error:\n  {'loc': 'body', 'msg': '%v'}", err), "body")
}

func (c *conn) missing(field string) error {
	message := fmt.Sprintf("1 validation error:\n  {'type': 'missing', 'loc': 'body.%s', 'msg': 'Field required'}", field)
	return c.refuse(400, "Bad Request", message, "body."+field)
}

func (c *conn) limitTooLow(field string) error {
	return c.refuse(400, "BadRequestError", field+" must be at least 1, got 0.", field)
}

// unknownModel answers vLLM's 404; on /v1/messages it has Anthropic's shape. model is still escaped.
func (c *conn) unknownModel(model []byte) error {
	message := fmt.Sprintf("The model `%s` does not exist.", model)
	if string(c.head.path) == "/v1/messages" {
		return c.send(404, jsonType,
			fmt.Appendf(nil, `{"type":"error","error":{"type":"NotFoundError","message":"%s"}}`, message))
	}
	return c.send(404, jsonType,
		fmt.Appendf(nil, `{"error":{"message":"%s","type":"NotFoundError","param":"model","code":404}}`, message))
}
