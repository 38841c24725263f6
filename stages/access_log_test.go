package stages

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// telemetry.md, section 7.4: one line when a request arrives, and one when it is over.
func TestAccessLogTellsHowARequestEnded(t *testing.T) {
	const started = "started processing request"
	tests := []struct {
		name           string
		with           func(*rigging)
		do             func(t *testing.T, r *rig) *caller
		level, message string
		status         float64
		code           any
	}{
		{"well", nil, faulty(small), "INFO", "finished processing request", 200, nil},
		{"a stream, well", nil, faulty(stream), "INFO", "finished processing request", 200, nil},
		{"a redirect", nil, faulty(small, engine.Fault{Status: 302}), "INFO", "finished processing request", 302, nil},
		{"the client's mistake", nil, faulty(`{`), "WARN", "request failed with client error", 400, "invalid_json"},
		{"the client's mistake, as the worker says", nil, faulty(small, engine.Fault{Status: 422}), "WARN", "request failed with client error", 422, nil},
		{"the worker's error", attempts(1), faulty(small, engine.Fault{Status: 500}), "ERROR", "request failed with server error", 500, nil},
		{"the worker's error, after attempts", attempts(3), faulty(small, engine.Fault{Status: 503}), "ERROR", "request failed with server error", 503, nil},
		{"the gateway's error", states("unhealthy"), faulty(small), "ERROR", "request failed with server error", 503, "no_available_workers"},
		{"a shed", states("overloaded"), faulty(small), "ERROR", "request failed with server error", 503, "worker_overload_protection_shed"},
		{"a panic", nil, during("policy", false, boom), "ERROR", "request failed with server error", 500, "internal_error"},
		{"a stream that broke", nil, faulty(stream, engine.Fault{CutAfterEvents: at(1)}), "ERROR", "response stream failed after the head was sent", 200, "stream_error"},
		{"a client that left", nil, leaving(small, silent(), inFlightWith), "INFO", "client left before the end of the response", 499, "client_closed_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, tt.with)
			c := tt.do(t, r)
			records, _ := split(r.log.records(t))
			require.Len(t, records, 2, "exactly one line about the end")
			begin, end := records[0], records[1]
			require.Equal(t, []any{"INFO", "smg::request", started}, []any{begin["level"], begin["target"], begin["message"]})
			require.Equal(t, []any{tt.level, "smg::response", tt.message}, []any{end["level"], end["target"], end["message"]})
			require.Equal(t, tt.code, end["error_code"])
			span := end["span"].(map[string]any)
			require.Equal(t, tt.status, span["status_code"])
			require.Equal(t, []any{"POST", chatPath, "HTTP/1.1"}, []any{span["method"], span["uri"], span["version"]})
			require.NotEmpty(t, span["request_id"])
			require.Equal(t, begin["request_id"], end["request_id"])
			if c.head != nil {
				require.Equal(t, c.head.Get("X-Request-Id"), span["request_id"])
			}
			require.NotContains(t, begin["span"], "status_code", "absent until it is known")
		})
	}
}

// split takes the lines about streams that ended from the others.
func split(records []map[string]any) (others, streams []map[string]any) {
	for _, record := range records {
		if record["message"] == "response stream ended" {
			streams = append(streams, record)
		} else {
			others = append(others, record)
		}
	}
	return others, streams
}

// leavingAtFirst asks for a stream and leaves when its first bytes have come.
func leavingAtFirst(_ *testing.T, r *rig) *caller {
	r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(1)})
	c := post(chatPath, stream)
	c.onWrite = func(c *caller, _ []byte) { c.leave() }
	return r.ask(c)
}

// telemetry.md, section 7.4: "for streams a second DEBUG line at body end with total duration, bytes, tokens, client_gone".
func TestAccessLogTellsWhatAStreamCameTo(t *testing.T) {
	withoutUsage := strings.Replace(stream, `,"stream_options":{"include_usage":true}`, "", 1)
	quiet := func(s *rigging) { s.level = slog.LevelInfo }
	leaveEarly := leaving(stream, silent(), inFlightWith)
	tests := []struct {
		name                string
		with                func(*rigging)
		do                  func(t *testing.T, r *rig) *caller
		told, gone, counted bool
	}{
		{"a stream that ends", nil, faulty(stream), true, false, true},
		{"one whose worker does not say what it was", nil, faulty(withoutUsage), true, false, false},
		{"one that comes with the second attempt", nil, faulty(stream, engine.Fault{Status: 503, Count: 1}), true, false, true},
		{"one that breaks", nil, faulty(stream, engine.Fault{CutAfterEvents: at(1)}), true, false, false},
		{"one that the client leaves", nil, leavingAtFirst, true, true, false},
		{"a client that leaves before there is a stream", nil, leaveEarly, false, false, false},
		{"an answer that is no stream", nil, faulty(small), false, false, false},
		{"a failure in the place of a stream", attempts(1), faulty(stream, engine.Fault{Status: 503}), false, false, false},
		{"at info, a stream that ends", quiet, faulty(stream), false, false, false},
		{"at info, one that the client leaves", quiet, leavingAtFirst, false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, tt.with)
			var client pipeline.Client
			r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
				return c.Before("access_log", pipeline.StageFunc("look", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
					defer func() { client = x.Client }()
					return next(x)
				}))
			})
			c := tt.do(t, r)
			require.Same(t, c, client, "the client is itself again")
			others, streams := split(r.log.records(t))
			require.Len(t, others, 2)
			if !tt.told {
				require.Empty(t, streams)
				return
			}
			require.Len(t, streams, 1)
			end := streams[0]
			require.Equal(t, []any{"DEBUG", "smg::response"}, []any{end["level"], end["target"]})
			require.Equal(t, others[1]["request_id"], end["request_id"])
			require.Positive(t, c.got.Len())
			require.EqualValues(t, c.got.Len(), end["bytes"])
			require.Equal(t, tt.gone, end["client_gone"])
			require.GreaterOrEqual(t, end["duration_us"], others[1]["span"].(map[string]any)["latency"], "the head is a part of it")
			for _, key := range []string{"input_tokens", "output_tokens"} {
				if tt.counted {
					require.Positive(t, end[key], key)
				} else {
					require.NotContains(t, end, key)
				}
			}
		})
	}
}

// A filter that shows the target at info shows no second line, and has nothing counted: a stage behind sees the client itself.
func TestAccessLogCountsNothingThatNobodyReads(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		r := newRig(t, 1, func(s *rigging) { s.level = level })
		var client pipeline.Client
		r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
			return c.Before("in_flight", pipeline.StageFunc("look", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
				defer func() { client = x.Client }()
				return next(x)
			}))
		})
		c := r.ask(post(chatPath, stream))
		require.Equal(t, 200, c.status)
		require.Equal(t, level == slog.LevelInfo, client == pipeline.Client(c), "at %v", level)
	}
}

// telemetry.md, section 7.4: what the line about the end adds, and what it must not tell.
func TestAccessLogNamesWorkerAndAttempts(t *testing.T) {
	r := newRig(t, 2, nil)
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	c := post(chatPath, stream, "Authorization", "Bearer sk-secret")
	c.query = "api_key=hunter2&x=1"
	require.Equal(t, 200, r.ask(c).status)
	end := r.log.records(t)[1]
	require.Equal(t, r.workers[1].URL(), end["worker"])
	require.Equal(t, []any{2.0, "m1", true}, []any{end["attempts"], end["model"], end["streaming"]})
	require.Equal(t, chatPath+"?api_key=***&x=1", end["span"].(map[string]any)["uri"])
	for _, secret := range []string{"sk-secret", "hunter2", `"content"`} {
		require.NotContains(t, r.log.buf.String(), secret)
	}
}

// telemetry.md, section 7.4: the cause is for the log, with the worker and the stack of a panic, and never for the client.
func TestAccessLogHasTheCause(t *testing.T) {
	r := newRig(t, 1, attempts(1))
	r.engines[0].SetFaults(engine.Fault{Close: true})
	c := r.ask(chat())
	require.NotContains(t, c.got.String(), "127.0.0.1", "DECISIONS 29")
	require.Contains(t, r.log.records(t)[1]["cause"], r.workers[0].URL())

	c = during("policy", false, boom)(t, r)
	require.NotContains(t, c.got.String(), "boom")
	cause := r.log.records(t)[3]["cause"]
	require.Contains(t, cause, "panic: boom")
	require.Contains(t, cause, "access_log_test.go", "with the stack")
}

// telemetry.md, section 7.4: "both at DEBUG for probes, whatever the status".
func TestAccessLogKeepsProbesQuiet(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		for _, status := range []int{200, 503} {
			out := &lines{}
			log, err := telemetry.NewLogger(telemetry.LogOptions{Level: level, JSON: true, Stdout: out, Env: func(string) string { return "" }})
			require.NoError(t, err)
			c := post("/readiness", "")
			_, err = c.through(t, given(pipeline.RequestID), AccessLog(log.Target("smg"), true), last(status, nil))
			require.NoError(t, err)
			if level == slog.LevelInfo {
				require.Empty(t, out.records(t))
				continue
			}
			for _, record := range out.records(t) {
				require.Equal(t, "DEBUG", record["level"])
			}
			require.Len(t, out.records(t), 2)
			require.Equal(t, "finished probe request", out.records(t)[1]["message"])
		}
	}
}

// A line that nobody reads is not made.
func TestAccessLogIsSilentBelowItsLevel(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) { s.level = slog.LevelWarn })
	require.Equal(t, 200, r.ask(chat()).status)
	require.Empty(t, r.log.records(t))
	require.Equal(t, 400, r.ask(post(chatPath, "{")).status)
	require.Len(t, r.log.records(t), 1)
}
