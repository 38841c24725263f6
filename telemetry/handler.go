package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// Handler is smg's [slog.Handler]. It has a target, which the filter judges and every line names; [NewLogger] makes one.
type Handler struct {
	log    *Log
	target string
	level  *slog.LevelVar // of the target; shared by all handlers of it, changed by Log.SetFilter
	scopes []scope
}

// scope is what one call of WithGroup (group is set) or of WithAttrs (attrs is set) added.
type scope struct {
	group string
	attrs []slog.Attr
}

var _ slog.Handler = (*Handler)(nil)

// WithTarget returns a handler for another target that keeps groups and attributes.
func (h *Handler) WithTarget(target string) *Handler {
	return &Handler{log: h.log, target: target, level: h.log.levelOf(target), scopes: h.scopes}
}

// WithTarget returns a logger like l for another target, such as "smg::worker". If l writes to another package's handler,
// the target becomes the attribute "target".
func WithTarget(l *slog.Logger, target string) *slog.Logger {
	if h, ok := l.Handler().(*Handler); ok {
		return slog.New(h.WithTarget(target))
	}
	return l.With(slog.String("target", target))
}

// Enabled reports whether the target's records of this level are written. It is one atomic load.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs is part of [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(scope{attrs: attrs})
}

// WithGroup is part of [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(scope{group: name})
}

func (h *Handler) with(s scope) *Handler {
	next := *h
	next.scopes = append(slices.Clip(h.scopes), s) // clipped: two children of one parent must not share the new element
	return &next
}

var lineBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Handle writes one line. It never fails: a line that an output does not take is counted as dropped.
func (h *Handler) Handle(ctx context.Context, rec slog.Record) error {
	buf := lineBuffers.Get().(*[]byte)
	line := line{
		target: h.target, scopes: h.scopes, rec: rec, req: requestOf(ctx, h.scopes, rec),
		source: h.level.Level() <= slog.LevelDebug,
	}
	b := (*buf)[:0]
	if h.log.json {
		b = line.appendJSON(b)
	} else {
		b = line.appendText(b)
	}
	h.log.write(rec.Time, b)
	if *buf = b; cap(b) <= 16<<10 { // one giant line must not stay in memory
		lineBuffers.Put(buf)
	}
	return nil
}

// line is one record with everything that its encoders need.
type line struct {
	target string
	scopes []scope
	rec    slog.Record
	req    *RequestInfo // nil outside a request
	source bool         // name file and line of the call
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "TRACE"
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARN"
	}
	return "ERROR"
}
