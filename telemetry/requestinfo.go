package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// RequestInfo is what every log record of a request says about the request: fields of the text line, or the object
// "span" of the JSON line with the ids on top. The server fills it once, before the first record.
type RequestInfo struct {
	Method    string
	Path      string // as the client sent it
	Query     string // raw, without "?"; values of keys that carry credentials are masked when it is logged
	Version   string // "HTTP/1.1"
	RequestID string
	TraceID   string // hexadecimal; empty when the request is not traced
	SpanID    string // hexadecimal; empty when the request is not traced

	status    atomic.Int32 // 0: not known yet
	latencyUS atomic.Int64
}

var _ slog.LogValuer = (*RequestInfo)(nil)

// SetHead notes the status of the response and the time from the arrival of the request to its head. It may be called while
// other goroutines log.
func (r *RequestInfo) SetHead(status int, latency time.Duration) {
	r.latencyUS.Store(latency.Microseconds())
	r.status.Store(int32(status))
}

// Attr carries r to the handler where there is no context to carry it; it allocates nothing.
func (r *RequestInfo) Attr() slog.Attr { return slog.Any("span", r) }

// LogValue is for handlers of other packages; smg's own handler writes the documented shape instead.
func (r *RequestInfo) LogValue() slog.Value {
	return slog.GroupValue(slog.String("request_id", r.RequestID), slog.String("method", r.Method), slog.String("uri", r.uri()))
}

func (r *RequestInfo) uri() string { return maskURI(r.Path, r.Query) }

type requestKey struct{}

// WithRequest returns a context whose records belong to r.
func WithRequest(ctx context.Context, r *RequestInfo) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// requestOf finds the request that a record belongs to: in its context, else among its attributes; nil if there is none.
func requestOf(ctx context.Context, scopes []scope, rec slog.Record) *RequestInfo {
	if r, ok := ctx.Value(requestKey{}).(*RequestInfo); ok {
		return r
	}
	var found *RequestInfo
	rec.Attrs(func(a slog.Attr) bool {
		found = asRequest(a)
		return found == nil
	})
	for i := 0; found == nil && i < len(scopes); i++ {
		for _, a := range scopes[i].attrs {
			if found = asRequest(a); found != nil {
				break
			}
		}
	}
	return found
}

func asRequest(a slog.Attr) *RequestInfo {
	if a.Value.Kind() != slog.KindLogValuer {
		return nil
	}
	r, _ := a.Value.Any().(*RequestInfo)
	return r
}

// secretWords mark query keys whose value never reaches a log.
var secretWords = []string{"key", "token", "secret", "password", "auth", "signature", "credential"}

func maskURI(path, query string) string {
	if query == "" {
		return path
	}
	var b strings.Builder
	b.WriteString(path)
	sep := byte('?')
	for pair := range strings.SplitSeq(query, "&") {
		b.WriteByte(sep)
		sep = '&'
		key, _, hasValue := strings.Cut(pair, "=")
		if hasValue && secretKey(key) {
			b.WriteString(key)
			b.WriteString("=***")
			continue
		}
		b.WriteString(pair)
	}
	return b.String()
}

func secretKey(key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil { // "api%5Fkey" is a key as well
		key = plain
	}
	key = strings.ToLower(key)
	for _, word := range secretWords {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}
