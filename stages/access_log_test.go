package stages

import (
	"log/slog"
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
			records := r.log.records(t)
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
