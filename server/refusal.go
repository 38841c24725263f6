package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// plainRefusal is how net/http refuses what it cannot read as a request: with a line of text, behind a head that no answer of a
// handler has, which always has a date.
var plainRefusal = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// refusal is the answer to a request that never became one, in the place of net/http's own; nil if p is any other answer. reason may
// be nil.
func refusal(p []byte, reason error) []byte {
	const version = "HTTP/1.1 "
	if len(p) < len(version)+3 || p[len(version)] < '4' || len(p) > 1<<10 || !bytes.HasPrefix(p, []byte(version)) {
		return nil
	}
	_, text, found := bytes.Cut(p, plainRefusal)
	status, err := strconv.Atoi(string(p[len(version) : len(version)+3]))
	if !found || err != nil {
		return nil
	}
	e := unreadable(status)
	if reason == nil {
		if _, told, more := bytes.Cut(text, []byte(": ")); more {
			reason = fmt.Errorf("%s", told)
		}
	}
	if reason != nil {
		e.Message += ": " + reason.Error()
	}
	kind, body := pipeline.OpenAIForm(e, "")
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-SMG-Error-Code: %s\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), kind, len(body), e.Code, telemetry.MintRequestID(""), body)
}

func unreadable(status int) *pipeline.Error {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return &pipeline.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Code: "request_headers_too_large", Message: "The head of the request is too large", Terminal: true}
	case http.StatusNotImplemented:
		return &pipeline.Error{Status: http.StatusNotImplemented, Code: "unsupported_transfer_encoding", Message: "The Transfer-Encoding is not supported; only chunked is", Terminal: true}
	case http.StatusHTTPVersionNotSupported:
		return &pipeline.Error{Status: http.StatusHTTPVersionNotSupported, Code: "unsupported_http_version", Message: "The version of HTTP is not supported", Terminal: true}
	}
	return &pipeline.Error{Status: http.StatusBadRequest, Code: "malformed_request", Message: "The request is malformed", Terminal: true}
}

// lingering is how long a client that was refused may go on sending.
const lingering = 500 * time.Millisecond

// refuse answers a request that never became one. What the client still sends is thrown away for a moment: bytes that nobody has read
// when the connection is closed would make its system throw the answer away.
func (c *conn) refuse(answer []byte) error {
	if _, err := c.Conn.Write(answer); err != nil {
		return err
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.CopyN(io.Discard, c.Conn, 256<<10)
	return nil
}
