package forward

import (
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// requestFields are the header fields that a worker gets: those of the client that are on the list, with all their values, one
// Authorization, the client's or else the worker's own, and the type of the body.
func requestFields(fields []pipeline.Field, x *pipeline.Exchange, w *workers.Worker) []pipeline.Field {
	authorized := false
	x.Client.Headers(func(name, value string) bool {
		switch {
		case name == "Authorization":
			if !authorized {
				fields = append(fields, pipeline.Field{Name: name, Value: value})
			}
			authorized = true
		case forwarded(name), x.Body.Streamed && name == "Content-Encoding":
			fields = append(fields, pipeline.Field{Name: name, Value: value})
		}
		return true
	})
	if bearer := w.Bearer(); !authorized && bearer != "" {
		fields = append(fields, pipeline.Field{Name: "Authorization", Value: bearer})
	}
	if x.Body.Streamed || len(x.Body.Bytes) > 0 {
		fields = append(fields, pipeline.Field{Name: "Content-Type", Value: "application/json"})
	}
	return fields
}

// forwarded tells whether a client's field, by its canonical name, goes to workers.
func forwarded(name string) bool {
	switch name {
	case "Anthropic-Version", "Anthropic-Beta", "X-Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate", "X-Smg-Routing-Key":
		return true
	}
	return strings.HasPrefix(name, "X-Request-Id-")
}

// responseFields are the header fields of a worker's answer that the client gets, filtered in place: all but those that
// concern the connection between worker and gateway, and those that the gateway alone may set.
func responseFields(a *answer, w *workers.Worker) []pipeline.Field {
	kept := a.Fields[:0]
	for _, f := range a.Fields {
		if !hopByHop(f.Name) && !named(a.Connection, f.Name) {
			kept = append(kept, f)
		}
	}
	return append(kept, targetOf(w))
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

// named tells whether the Connection field lists a name.
func named(connection, name string) bool {
	for connection != "" {
		var token string
		token, connection, _ = strings.Cut(connection, ",")
		if strings.EqualFold(strings.TrimSpace(token), name) {
			return true
		}
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
