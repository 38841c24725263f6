package forward

import (
	"cmp"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// fieldList gathers the header fields of a request to a worker.
type fieldList struct {
	fields     []pipeline.Field
	streamed   bool // the body is
	withheld   bool // the client's Authorization does not go
	authorized bool
	traced     bool                          // the gateway's own trace context goes instead of the client's
	take       func(name, value string) bool // what the client yields its fields to; made once
}

// gather makes the fields that a worker gets: those of the client that are on the list, with all their values, one
// Authorization, the client's if it is not withheld, or else the worker's own, the type of the body, and the trace context, the
// gateway's or else the client's own.
func (l *fieldList) gather(x *pipeline.Exchange, w *workers.Worker, trace []pipeline.Field) {
	l.streamed, l.withheld, l.traced = x.Body.Streamed, x.Withheld, len(trace) > 0
	x.Client.Headers(l.take)
	l.fields = append(l.fields, trace...)
	if bearer := w.Bearer(); !l.authorized && bearer != "" {
		l.add("Authorization", bearer)
	}
	if x.Body.Streamed || len(x.Body.Bytes) > 0 {
		l.add("Content-Type", cmp.Or(x.Body.ContentType, "application/json"))
	}
}

func (l *fieldList) add(name, value string) {
	l.fields = append(l.fields, pipeline.Field{Name: name, Value: value})
}

// choose is take.
func (l *fieldList) choose(name, value string) bool {
	switch {
	case name == "Authorization":
		if !l.authorized && !l.withheld {
			l.add(name, value)
			l.authorized = true
		}
	case l.traced && (name == "Traceparent" || name == "Tracestate"):
	case forwarded(name), l.streamed && name == "Content-Encoding":
		l.add(name, value)
	}
	return true
}

func (l *fieldList) reset() {
	clear(l.fields)
	l.fields, l.authorized = l.fields[:0], false
}

// forwarded tells whether a client's field, by its canonical name, goes to workers.
func forwarded(name string) bool {
	switch name {
	case "Anthropic-Version", "Anthropic-Beta", "X-Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate", "Baggage", "X-Smg-Routing-Key":
		return true
	}
	return strings.HasPrefix(name, "X-Request-Id-")
}

// filterHead leaves of an answer's header fields those that the client gets: all but those that concern the connection between
// worker and gateway, and those that the gateway alone may set. It adds the field that names the worker.
func filterHead(a *answer, w *workers.Worker) {
	kept := endToEnd(a.Fields, a.Connection)
	a.Fields = append(kept, pipeline.Field{Name: "X-Smg-Routed-Worker-Id", Value: w.URL()})
}

// endToEnd filters fields of a worker in place. connection is the value of its Connection field, which may name more of them.
func endToEnd(fields []pipeline.Field, connection string) []pipeline.Field {
	kept := fields[:0]
	for _, f := range fields {
		if !hopByHop(f.Name) && !hasToken(connection, f.Name) {
			kept = append(kept, f)
		}
	}
	return kept
}

// hopByHop tells whether a response field ends at the gateway. Content-Length does, because the gateway frames its answer
// itself.
func hopByHop(name string) bool {
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "Te")
	case 4:
		return strings.EqualFold(name, "Host")
	case 7:
		return strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Upgrade")
	case 8:
		return strings.EqualFold(name, "Trailers")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 12:
		return strings.EqualFold(name, "X-Request-Id")
	case 14:
		return strings.EqualFold(name, "Content-Length")
	case 16:
		return strings.EqualFold(name, "X-Smg-Error-Code") || strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	case 18:
		return strings.EqualFold(name, "Proxy-Authenticate")
	case 19:
		return strings.EqualFold(name, "Proxy-Authorization")
	case 22:
		return strings.EqualFold(name, "X-Smg-Routed-Worker-Id")
	}
	return false
}

// fieldValue is the first value of a field, in any case.
func fieldValue(fields []pipeline.Field, name string) string {
	for _, f := range fields {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}
