package telemetry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"unicode/utf8"
)

// appendJSON writes the record as one JSON object: timestamp, level, target, message, the request's ids, the fields, and the
// object "span" of a record inside a request.
func (l *line) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if !l.rec.Time.IsZero() {
		b = append(appendKey(b, "timestamp"), '"')
		b = append(l.rec.Time.UTC().AppendFormat(b, timeLayout), '"')
	}
	b = appendStringField(b, "level", levelName(l.rec.Level))
	b = appendStringField(b, "target", l.target)
	b = appendStringField(b, "message", l.rec.Message)
	if r := l.req; r != nil {
		b = appendStringField(b, "request_id", r.RequestID)
		if r.TraceID != "" {
			b = appendStringField(b, "trace_id", r.TraceID)
			b = appendStringField(b, "span_id", r.SpanID)
		}
	}
	b = l.appendScopes(b, l.scopes, true)
	if l.req != nil {
		b = l.appendSpan(b)
	}
	if src := l.sourceText(); src != "" {
		b = appendStringField(b, "source", src)
	}
	return append(b, '}', '\n')
}

func (l *line) appendSpan(b []byte) []byte {
	r := l.req
	b = append(appendKey(b, "span"), '{')
	b = appendStringField(b, "name", "http_request")
	b = appendStringField(b, "method", r.Method)
	b = appendStringField(b, "uri", r.uri())
	b = appendStringField(b, "version", r.Version)
	b = appendStringField(b, "request_id", r.RequestID)
	if status := r.status.Load(); status != 0 {
		b = strconv.AppendInt(appendKey(b, "status_code"), int64(status), 10)
		b = strconv.AppendInt(appendKey(b, "latency"), r.latencyUS.Load(), 10) // microseconds: aggregators rely on it
	}
	b = appendStringField(b, "module", "smg")
	return append(b, '}')
}

// appendScopes writes the handler's groups and attributes and, inside the innermost group, those of the record.
func (l *line) appendScopes(b []byte, scopes []scope, top bool) []byte {
	if len(scopes) == 0 {
		l.rec.Attrs(func(a slog.Attr) bool {
			b = l.appendAttr(b, a, top)
			return true
		})
		return b
	}
	s, rest := scopes[0], scopes[1:]
	if s.group == "" {
		for _, a := range s.attrs {
			b = l.appendAttr(b, a, top)
		}
		return l.appendScopes(b, rest, top)
	}
	mark := len(b)
	b = append(appendKey(b, l.free(s.group, top)), '{')
	inner := len(b)
	if b = l.appendScopes(b, rest, false); len(b) == inner {
		return b[:mark] // a group without attributes is left out
	}
	return append(b, '}')
}

func (l *line) appendAttr(b []byte, a slog.Attr, top bool) []byte {
	if asRequest(a) != nil || a.Equal(slog.Attr{}) {
		return b
	}
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		return appendJSONValue(appendKey(b, l.free(a.Key, top)), v)
	}
	attrs := v.Group()
	if a.Key == "" { // an inlined group
		for _, in := range attrs {
			b = l.appendAttr(b, in, top)
		}
		return b
	}
	mark := len(b)
	b = append(appendKey(b, l.free(a.Key, top)), '{')
	inner := len(b)
	for _, in := range attrs {
		b = l.appendAttr(b, in, false)
	}
	if len(b) == inner {
		return b[:mark]
	}
	return append(b, '}')
}

// free gives a field another name where the record's own keys stand, because a parser keeps only one of two equal keys.
func (l *line) free(key string, top bool) string {
	if !top {
		return key
	}
	switch key {
	case "timestamp", "level", "target", "message", "source":
		return key + "_"
	case "request_id", "trace_id", "span_id", "span":
		if l.req != nil {
			return key + "_"
		}
	}
	return key
}

func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendJSONString(b, key), ':')
}

func appendStringField(b []byte, key, value string) []byte {
	return appendJSONString(appendKey(b, key), value)
}

func appendJSONValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.AppendFloat(b, f, 'g', -1, 64)
		}
	case slog.KindAny:
		return appendJSONAny(b, v.Any())
	}
	return appendJSONString(b, valueText(v))
}

// appendJSONAny writes what has a text of its own as that text, and the rest as encoding/json sees it.
func appendJSONAny(b []byte, x any) []byte {
	_, isJSON := x.(json.Marshaler)
	_, isError := x.(error)
	_, isText := x.(fmt.Stringer)
	if isError || (isText && !isJSON) {
		return appendJSONString(b, anyText(x))
	}
	enc, err := json.Marshal(x)
	if err != nil {
		return appendJSONString(b, anyText(x))
	}
	return append(b, enc...)
}

// appendJSONString quotes s; bytes that are not UTF-8 become U+FFFD, so that the line stays valid JSON.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
