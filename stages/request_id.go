package stages

import (
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// RequestID gives the request an id: the value of the first of the headers that is present, if it can stand in a header and a
// log line (1 to 128 visible ASCII characters), else a fresh one. The response carries it as x-request-id, whatever comes of
// the request, and on /v1/messages as request-id too, which is where the clients of that API look. An id never routes a request.
func RequestID(headers []string) pipeline.Stage {
	return &requestID{pipeline.CanonicalNames(headers)}
}

type requestID struct{ headers []string }

var (
	_ pipeline.Stage      = (*requestID)(nil)
	_ pipeline.Contracted = (*requestID)(nil)
)

func (*requestID) Name() string { return "request_id" }

func (*requestID) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{pipeline.RequestID}}
}

func (s *requestID) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	x.ID = s.sent(x.Client)
	if !telemetry.ValidRequestID(x.ID) {
		x.ID = telemetry.MintRequestID(x.Client.Path())
	}
	x.Client.SetHeader("X-Request-Id", x.ID)
	if isMessages(x.Client.Path()) {
		x.Client.SetHeader("Request-Id", x.ID)
	}
	return next(x)
}

// isMessages tells the routes of the Anthropic API.
func isMessages(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/messages")
	return ok && (rest == "" || rest[0] == '/')
}

// sent is the value of the first header that is present.
func (s *requestID) sent(c pipeline.Client) string {
	for _, name := range s.headers {
		if id := c.Header(name); id != "" {
			return id
		}
	}
	return ""
}
