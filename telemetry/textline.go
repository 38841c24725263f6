package telemetry

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	timeLayout = "2006-01-02T15:04:05.000Z" // RFC 3339 with milliseconds; the time is in UTC
	levelWidth = 5                          // "ERROR"; shorter ones are padded on the left
)

// appendText writes "time LEVEL target: message key=value ...". Time and level have a fixed width, so that colours can be
// laid over them later without encoding the line again.
func (l *line) appendText(b []byte) []byte {
	if !l.rec.Time.IsZero() {
		b = append(l.rec.Time.UTC().AppendFormat(b, timeLayout), ' ')
	}
	name := levelName(l.rec.Level)
	for range levelWidth - len(name) {
		b = append(b, ' ')
	}
	b = append(append(append(append(b, name...), ' '), l.target...), ": "...)
	b = appendMessage(b, l.rec.Message)
	b = l.appendTextRequest(b)
	prefix := ""
	for _, s := range l.scopes {
		if s.group != "" {
			prefix += s.group + "."
		}
		for _, a := range s.attrs {
			b = appendTextAttr(b, prefix, a)
		}
	}
	l.rec.Attrs(func(a slog.Attr) bool {
		b = appendTextAttr(b, prefix, a)
		return true
	})
	if src := l.sourceText(); src != "" {
		b = appendTextField(b, "source", src)
	}
	return append(b, '\n')
}

func (l *line) appendTextRequest(b []byte) []byte {
	r := l.req
	if r == nil {
		return b
	}
	b = appendTextField(b, "request_id", r.RequestID)
	b = appendTextField(b, "method", r.Method)
	b = appendTextField(b, "uri", r.uri())
	if status := r.status.Load(); status != 0 {
		b = strconv.AppendInt(append(b, " status="...), int64(status), 10)
		b = strconv.AppendInt(append(b, " latency_us="...), r.latencyUS.Load(), 10)
	}
	if r.TraceID != "" {
		b = appendTextField(b, "trace_id", r.TraceID)
		b = appendTextField(b, "span_id", r.SpanID)
	}
	return b
}

// sourceText is the last folder, file and line of the call; not the whole path, which tells about the machine smg was built on.
func (l *line) sourceText() string {
	if !l.source { // asked first: finding the source costs more than the rest of the line
		return ""
	}
	src := l.rec.Source()
	if src == nil || src.File == "" {
		return ""
	}
	dir, file := filepath.Split(src.File)
	return filepath.Base(dir) + "/" + file + ":" + strconv.Itoa(src.Line)
}

func appendTextAttr(b []byte, prefix string, a slog.Attr) []byte {
	if asRequest(a) != nil || a.Equal(slog.Attr{}) {
		return b
	}
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, in := range v.Group() {
			b = appendTextAttr(b, prefix, in)
		}
		return b
	}
	if v.Kind() == slog.KindInt64 {
		b = append(appendWord(append(b, ' '), prefix+a.Key), '=')
		return strconv.AppendInt(b, v.Int64(), 10)
	}
	return appendTextField(b, prefix+a.Key, valueText(v))
}

func appendTextField(b []byte, key, value string) []byte {
	b = append(appendWord(append(b, ' '), key), '=')
	return appendWord(b, value)
}

// appendWord quotes what a reader could take for two fields or another line, or a terminal for a command.
func appendWord(b []byte, s string) []byte {
	odd := func(r rune) bool {
		return r <= ' ' || r == '"' || r == '=' || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// appendMessage keeps spaces and quotes, and escapes what would break the line.
func appendMessage(b []byte, s string) []byte {
	plain := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	for _, r := range s {
		if plain(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		q := strconv.QuoteRune(r)
		b = append(b, q[1:len(q)-1]...)
	}
	return b
}

// valueText is a value that is not a group, as text.
func valueText(v slog.Value) string {
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().UTC().Format(timeLayout)
	case slog.KindAny:
		return anyText(v.Any())
	}
	return v.String()
}

func anyText(x any) (s string) {
	defer func() {
		if p := recover(); p != nil { // a nil pointer behind an error or Stringer; a log line must not end a request
			s = fmt.Sprintf("!PANIC: %v", p)
		}
	}()
	switch x := x.(type) {
	case error:
		return x.Error()
	case fmt.Stringer:
		return x.String()
	}
	return fmt.Sprintf("%+v", x)
}
