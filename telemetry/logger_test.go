package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/stretchr/testify/require"
)

// output is a stdout that a test may read while others write.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) lines() []string { return strings.Split(strings.TrimSuffix(o.String(), "\n"), "\n") }

// logTo makes a log that writes to the output it returns. env holds name, value, name, value.
func logTo(t testing.TB, o LogOptions, env ...string) (*Log, *output) {
	t.Helper()
	out := new(output)
	o.Stdout = out
	o.Env = func(name string) string {
		for i := 0; i < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	}
	l, err := NewLogger(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, out
}

// at gives the record a fixed time, so that a test can compare whole lines.
func at(l *slog.Logger, ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	if !l.Enabled(ctx, level) {
		return
	}
	rec := slog.NewRecord(time.Date(2026, 9, 24, 12, 30, 45, 123_900_000, time.FixedZone("", 2*3600)), level, msg, 0)
	rec.AddAttrs(attrs...)
	_ = l.Handler().Handle(ctx, rec)
}

func chat() *RequestInfo {
	return &RequestInfo{Method: "POST", Path: "/v1/chat/completions", Version: "HTTP/1.1", RequestID: "chatcmpl-1"}
}

// telemetry.md, section 7.3
func TestTextLine(t *testing.T) {
	done := chat()
	done.SetHead(200, 1523*time.Microsecond)
	traced := chat()
	traced.TraceID, traced.SpanID = "0af7", "b7ad"
	const ts = "2026-09-24T10:30:45.123Z"
	tests := []struct {
		name  string
		req   *RequestInfo
		msg   string
		attrs []slog.Attr
		want  string
	}{
		{
			"a record outside a request has its fields only", nil, "listening",
			[]slog.Attr{slog.Int("port", 80)},
			ts + "  INFO smg::response: listening port=80\n",
		},
		{
			"a finished request has status and microseconds", done, "finished processing request", nil,
			ts + "  INFO smg::response: finished processing request request_id=chatcmpl-1 method=POST uri=/v1/chat/completions status=200 latency_us=1523\n",
		},
		{
			"before the head there is no status", chat(), "started",
			[]slog.Attr{slog.String("worker", "http://w:1")},
			ts + "  INFO smg::response: started request_id=chatcmpl-1 method=POST uri=/v1/chat/completions worker=http://w:1\n",
		},
		{
			"a traced request has its ids", traced, "x", nil,
			ts + "  INFO smg::response: x request_id=chatcmpl-1 method=POST uri=/v1/chat/completions trace_id=0af7 span_id=b7ad\n",
		},
		{
			"a value that could forge a field or a line is quoted", nil, "x",
			[]slog.Attr{slog.String("a", "1 b=2\n\x1b[31m"), slog.String("e", "")},
			ts + `  INFO smg::response: x a="1 b=2\n\x1b[31m" e=""` + "\n",
		},
		{"a message cannot break the line", nil, "a\nb\x1b[0m \"ok\" é", nil, ts + `  INFO smg::response: a\nb\x1b[0m "ok" é` + "\n"},
		{
			"groups become dotted keys", nil, "x",
			[]slog.Attr{slog.Group("g", slog.Int("a", 1), slog.Group("h", slog.Bool("b", true)))},
			ts + "  INFO smg::response: x g.a=1 g.h.b=true\n",
		},
		{
			"values have a readable form", nil, "x",
			[]slog.Attr{
				slog.Duration("d", 1500*time.Millisecond), slog.Any("e", errors.New("no luck")), slog.Float64("f", 0.25),
				slog.Time("t", time.Unix(0, 0)), slog.Any("l", []int{1}), slog.Any("n", (*slog.LevelVar)(nil)),
			},
			ts + `  INFO smg::response: x d=1.5s e="no luck" f=0.25 t=1970-01-01T00:00:00.000Z l=[1] n=` +
				`"!PANIC: runtime error: invalid memory address or nil pointer dereference"` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, out := logTo(t, LogOptions{})
			ctx := t.Context()
			if tt.req != nil {
				ctx = WithRequest(ctx, tt.req)
			}
			at(l.Target("smg::response"), ctx, slog.LevelInfo, tt.msg, tt.attrs...)
			require.Equal(t, tt.want, out.String())
		})
	}
}

// telemetry.md, section 7.3
func TestJSONLineOfARequest(t *testing.T) {
	req := chat()
	req.Query = "api_key=s3cret&x=1"
	l, out := logTo(t, LogOptions{JSON: true})
	log := l.Target("smg::response")

	at(log, WithRequest(t.Context(), req), slog.LevelInfo, "started")
	req.SetHead(503, 1523*time.Microsecond)
	req.TraceID, req.SpanID = "0af7", "b7ad"
	at(log, t.Context(), slog.LevelError, `failed "hard"`, req.Attr(), slog.Int("attempts", 2))

	require.JSONEq(t, `{"timestamp":"2026-09-24T10:30:45.123Z","level":"INFO","target":"smg::response","message":"started",
		"request_id":"chatcmpl-1","span":{"name":"http_request","method":"POST","uri":"/v1/chat/completions?api_key=***&x=1",
		"version":"HTTP/1.1","request_id":"chatcmpl-1","module":"smg"}}`, out.lines()[0])
	require.JSONEq(t, `{"timestamp":"2026-09-24T10:30:45.123Z","level":"ERROR","target":"smg::response","message":"failed \"hard\"",
		"request_id":"chatcmpl-1","trace_id":"0af7","span_id":"b7ad","attempts":2,
		"span":{"name":"http_request","method":"POST","uri":"/v1/chat/completions?api_key=***&x=1","version":"HTTP/1.1",
		"request_id":"chatcmpl-1","status_code":503,"latency":1523,"module":"smg"}}`, out.lines()[1])
}

// telemetry.md, section 7.3
func TestJSONLineKeepsItsOwnKeys(t *testing.T) {
	l, out := logTo(t, LogOptions{JSON: true})
	attrs := []slog.Attr{
		slog.String("level", "x"), slog.String("message", "x"), slog.String("target", "x"), slog.String("timestamp", "x"),
		slog.String("source", "x"), slog.String("request_id", "mine"), slog.String("span", "mine"),
	}
	at(l.Target("smg"), t.Context(), slog.LevelInfo, "m", attrs...)
	at(l.Target("smg"), WithRequest(t.Context(), chat()), slog.LevelInfo, "m", attrs...)

	for i, line := range out.lines() {
		keys := make(map[string]int)
		dec := json.NewDecoder(strings.NewReader(line))
		_, err := dec.Token()
		require.NoError(t, err)
		for dec.More() {
			key, err := dec.Token()
			require.NoError(t, err)
			keys[key.(string)]++
			require.NoError(t, dec.Decode(new(any)))
		}
		for key, n := range keys {
			require.Equal(t, 1, n, "line %d has %s twice", i, key)
		}
		require.Contains(t, keys, "message_")
	}
	require.Contains(t, out.lines()[0], `"request_id":"mine"`, "outside a request the name is free")
	require.Contains(t, out.lines()[1], `"request_id_":"mine"`)
}

func TestJSONLineIsValidWhateverIsLogged(t *testing.T) {
	l, out := logTo(t, LogOptions{JSON: true})
	at(l.Target("smg"), t.Context(), slog.LevelInfo, "a\"\\\n\t\x00\x7f\xff é \u2028",
		slog.Float64("nan", math.NaN()), slog.Float64("inf", math.Inf(1)), slog.Any("chan", make(chan int)), slog.Any("nil", nil),
		slog.Any("map", map[string]int{"a": 1}), slog.Any("err", errors.New("e")), slog.String("\"k\xff", "v"), slog.Uint64("u", math.MaxUint64),
		slog.Duration("d", time.Second))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	require.Equal(t, "a\"\\\n\t\x00\x7f\uFFFD é \u2028", got["message"])
	require.Equal(t, "NaN", got["nan"])
	require.Equal(t, "e", got["err"])
	require.Equal(t, "1s", got["d"])
	require.Equal(t, map[string]any{"a": 1.0}, got["map"])
	require.Contains(t, got, "\"k\uFFFD")
}

func TestHandlerKeepsTheContractOfSlog(t *testing.T) {
	var out *output
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		var l *Log
		l, out = logTo(t, LogOptions{JSON: true})
		return l.Target("smg").Handler()
	}, func(t *testing.T) map[string]any {
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
		for ours, slogs := range map[string]string{"timestamp": slog.TimeKey, "message": slog.MessageKey} {
			if v, ok := got[ours]; ok {
				got[slogs] = v
			}
		}
		return got
	})
}

func TestLoggersOfOneParentDoNotShareAttributes(t *testing.T) {
	l, out := logTo(t, LogOptions{})
	parent := l.Target("smg").With("a", 1).With("b", 2).With("c", 3)
	one, two := parent.With("d", "one"), parent.With("d", "two")
	one.Info("x")
	two.Info("x")
	require.Contains(t, out.lines()[0], "a=1 b=2 c=3 d=one")
	require.Contains(t, out.lines()[1], "a=1 b=2 c=3 d=two")
}

// telemetry.md, section 7.2
func TestLevelsOfTargets(t *testing.T) {
	tests := []struct {
		name    string
		level   slog.Level
		rustLog string
		target  string
		at      slog.Level
		shown   bool
	}{
		{"at warn there is no INFO of smg", slog.LevelWarn, "", "smg::request", slog.LevelInfo, false},
		{"at warn there is no INFO of a library", slog.LevelWarn, "", "net/http", slog.LevelInfo, false},
		{"at debug a library still speaks from warn on", slog.LevelDebug, "", "net/http", slog.LevelInfo, false},
		{"a library may warn", slog.LevelInfo, "", "net/http", slog.LevelWarn, true},
		{"trace is finer than debug", slog.LevelDebug, "", "smg", LevelTrace, false},
		{"a filter shows a target's DEBUG", slog.LevelInfo, "info,smg::service_discovery=debug", "smg::service_discovery", slog.LevelDebug, true},
		{"and hides that of others", slog.LevelInfo, "info,smg::service_discovery=debug", "smg::policies::bucket", slog.LevelDebug, false},
		{"and shows a library's INFO", slog.LevelInfo, "info,smg::service_discovery=debug", "net/http", slog.LevelInfo, true},
		{"a filter without a base hides a library's WARN", slog.LevelInfo, "smg=debug", "net/http", slog.LevelWarn, false},
		{"a filter that does not parse leaves the flag in force", slog.LevelWarn, "smg==x", "smg", slog.LevelInfo, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, out := logTo(t, LogOptions{Level: tt.level}, "RUST_LOG", tt.rustLog)
			l.Target(tt.target).Log(t.Context(), tt.at, "the line")
			require.Equal(t, tt.shown, strings.Contains(out.String(), "the line"), out.String())
			require.Equal(t, strings.Count(tt.rustLog, "=="), strings.Count(out.String(), "is ignored"), "one warning")
		})
	}
}

func TestSetFilterHoldsForLoggersThatExist(t *testing.T) {
	l, out := logTo(t, LogOptions{Level: slog.LevelInfo})
	log := WithTarget(l.Target(Target), "smg::worker").With("k", "v")
	log.Debug("before")
	l.SetFilter(DefaultFilter(slog.LevelDebug))
	log.Debug("after")
	require.NotContains(t, out.String(), "before")
	require.Contains(t, out.String(), "DEBUG smg::worker: after k=v source=telemetry/logger_test.go:")
}

func TestWithTargetOfAnotherHandlerBecomesAnAttribute(t *testing.T) {
	var buf bytes.Buffer
	WithTarget(slog.New(slog.NewJSONHandler(&buf, nil)), "smg::worker").Info("x", chat().Attr())
	require.Contains(t, buf.String(), `"target":"smg::worker"`)
	require.Contains(t, buf.String(), `"span":{"request_id":"chatcmpl-1"`)
}

// telemetry.md, section 7.1
func TestColours(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, wantColor(LogOptions{Stdout: file, Env: func(string) string { return "" }}), "a file is not a terminal")

	l, out := logTo(t, LogOptions{})
	at(l.Target("smg"), t.Context(), slog.LevelInfo, "x")
	require.NotContains(t, out.String(), "\x1b")

	l, out = logTo(t, LogOptions{Color: ColorAlways, Dir: t.TempDir()})
	at(l.Target("smg"), t.Context(), slog.LevelWarn, "x")
	require.Equal(t, "\x1b[2m2026-09-24T10:30:45.123Z\x1b[0m \x1b[33m WARN\x1b[0m smg: x\n", out.String())
	require.NoError(t, l.Close())
	require.NotContains(t, readDir(t, l.file.dir), "\x1b", "files never have colours")

	l, out = logTo(t, LogOptions{Color: ColorAlways, JSON: true})
	at(l.Target("smg"), t.Context(), slog.LevelWarn, "x")
	require.NotContains(t, out.String(), "\x1b")
}

// telemetry.md, section 6.4: no query strings with keys; section 7.4: never logged
func TestMaskURI(t *testing.T) {
	tests := []struct{ name, query, want string }{
		{"no query, no question mark", "", "/p"},
		{"harmless values stay", "a=1&b=2", "/p?a=1&b=2"},
		{"a key is masked", "api_key=abc&a=1", "/p?api_key=***&a=1"},
		{"whatever its case", "Access_TOKEN=abc", "/p?Access_TOKEN=***"},
		{"escapes in the name do not help", "api%5Fk%65y=abc", "/p?api%5Fk%65y=***"},
		{"a bare word is no value", "token", "/p?token"},
		{"an equals sign in the value is part of it", "secret=a=b", "/p?secret=***"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, maskURI("/p", tt.query)) })
	}
}

func TestStdoutThatFailsIsCounted(t *testing.T) {
	l, err := NewLogger(LogOptions{Stdout: failing{}, Env: func(string) string { return "" }})
	require.NoError(t, err)
	l.Target("smg").Info("x")
	stdout, file := l.Dropped()
	require.EqualValues(t, 1, stdout)
	require.Zero(t, file)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken") }
