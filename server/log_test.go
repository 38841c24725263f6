package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// logged is one line of the log as JSON.
type logged struct {
	Timestamp time.Time `json:"timestamp"`
	Level     string    `json:"level"`
	Target    string    `json:"target"`
	Message   string    `json:"message"`
	RequestID string    `json:"request_id"`
	Worker    string    `json:"worker"`
	Attempts  int       `json:"attempts"`
	Code      string    `json:"error_code"`
	Model     string    `json:"model"`
	Streaming bool      `json:"streaming"`
	Span      struct {
		Name      string `json:"name"`
		Method    string `json:"method"`
		URI       string `json:"uri"`
		Version   string `json:"version"`
		RequestID string `json:"request_id"`
		Status    int    `json:"status_code"`
		Latency   *int64 `json:"latency"`
		Module    string `json:"module"`
	} `json:"span"`
}

// parsed reads the log so far; a line that is no JSON object fails the test.
func (l *lines) parsed(t testing.TB) (all []logged) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var one logged
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		require.False(t, one.Timestamp.IsZero(), line)
		require.NotEmpty(t, one.Message, line)
		require.True(t, strings.HasPrefix(one.Target, "smg"), line)
		all = append(all, one)
	}
	return all
}

// of waits for the line about the end of a request, and returns all of the request's lines.
func (l *lines) of(t testing.TB, id string) (found []logged) {
	t.Helper()
	require.Eventually(t, func() bool {
		found = nil
		ended := false
		for _, line := range l.parsed(t) {
			if line.RequestID == id {
				found = append(found, line)
				ended = ended || line.Target == "smg::response"
			}
		}
		return ended
	}, patience, 5*time.Millisecond, "no end of request %s in the log", id)
	return found
}

// telemetry.md sections 7.3, 7.4 and 8
func TestARequestHasTwoLinesInTheLog(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.LogJSON, c.DisableRetries = true, false }, w)
	id := g.gateway.registry.All()[0].ID().String()
	tests := []struct {
		name, method, path, body string
		fault                    engine.Fault
		level, message           string
		status                   int
		code                     string
	}{
		{"an answer", "POST", chatPath, chat, engine.Fault{}, "INFO", "finished processing request", 200, ""},
		{"a stream", "POST", chatPath, chats, engine.Fault{}, "INFO", "finished processing request", 200, ""},
		{"a question", "GET", "/v1/models", "", engine.Fault{}, "INFO", "finished processing request", 200, ""},
		{"the worker API", "GET", "/workers/" + id, "", engine.Fault{}, "INFO", "finished processing request", 200, ""},
		{"a client's mistake", "POST", chatPath, "{", engine.Fault{}, "WARN", "request failed with client error", 400, "invalid_json"},
		{"a worker's refusal", "POST", chatPath, chat, engine.Fault{Status: 422}, "WARN", "request failed with client error", 422, ""},
		{"a worker's failure", "POST", chatPath, chat, engine.Fault{Status: 500}, "ERROR", "request failed with server error", 500, ""},
		{"a failure that was tried again", "POST", chatPath, chat, engine.Fault{Status: 503}, "ERROR", "request failed with server error", 503, ""},
		{"a worker that hangs up", "POST", chatPath, chat, engine.Fault{Close: true}, "ERROR", "request failed with server error", 502, "call_upstream_request_error"},
		{"a stream that breaks", "POST", chatPath, chats, engine.Fault{CutAfterEvents: new(2)}, "ERROR", "response stream failed after the head was sent", 200, "stream_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.SetFaults(tt.fault)
			one := strings.ReplaceAll(tt.name, " ", "-")
			g.do(t, tt.method, tt.path+"?api_key=hidden&x=1", tt.body, "X-Request-Id", one)
			found := g.Log.of(t, one)
			require.Len(t, found, 2, "one when it comes, one when it is over")
			for _, line := range found {
				require.Equal(t, one, line.Span.RequestID)
				require.Equal(t, "http_request", line.Span.Name)
				require.Equal(t, "smg", line.Span.Module)
				require.Equal(t, tt.method, line.Span.Method)
				require.Equal(t, tt.path+"?api_key=***&x=1", line.Span.URI)
				require.Equal(t, "HTTP/1.1", line.Span.Version)
			}
			require.Equal(t, "started processing request", found[0].Message)
			require.Equal(t, "smg::request", found[0].Target)
			require.Equal(t, "INFO", found[0].Level)
			require.Nil(t, found[0].Span.Latency)

			end := found[1]
			require.Equal(t, "smg::response", end.Target)
			require.Equal(t, tt.level, end.Level)
			require.Equal(t, tt.message, end.Message)
			require.Equal(t, tt.status, end.Span.Status)
			require.NotNil(t, end.Span.Latency)
			require.Equal(t, tt.code, end.Code)
			if tt.body == chat || tt.body == chats {
				require.Equal(t, w.URL, end.Worker)
				require.Equal(t, "m1", end.Model)
				require.Equal(t, tt.body == chats, end.Streaming)
				require.GreaterOrEqual(t, end.Attempts, 1)
				require.Equal(t, tt.fault.Status == 503 || tt.fault.Close, end.Attempts > 1)
			}
		})
	}
	log := g.Log.String()
	for _, secret := range []string{"hidden", `"content"`, "messages"} {
		require.NotContains(t, log, secret)
	}
}

// telemetry.md section 7.4: who asks every few seconds, or for nothing, is not heard of at info.
func TestProbesAreSilent(t *testing.T) {
	quiet, loud := start(t, func(c *Config) { c.LogJSON = true }), start(t, func(c *Config) { c.LogJSON, c.LogLevel = true, "debug" })
	for _, path := range []string{"/health", "/liveness", "/readiness", "/nope"} {
		for range 100 {
			quiet.get(t, path)
		}
		loud.do(t, http.MethodGet, path, "", "X-Request-Id", path)
		found := loud.Log.of(t, path)
		require.Len(t, found, 2, path)
		require.Equal(t, "DEBUG", found[0].Level)
		require.Equal(t, "DEBUG", found[1].Level)
		require.Equal(t, "finished probe request", found[1].Message)
	}
	require.Equal(t, http.StatusServiceUnavailable, quiet.get(t, "/readiness").StatusCode, "nor of this, which is no failure of a request")
	quiet.do(t, http.MethodGet, "/workers", "", "X-Request-Id", "last")
	quiet.Log.of(t, "last")
	for _, line := range quiet.Log.parsed(t) {
		require.Contains(t, []string{"", "last"}, line.RequestID)
	}
}

// telemetry.md sections 7.2 and 7.6: jobs and the polls of loads have targets of their own, for filters. A change that was accepted, and
// then fails, is an ERROR.
func TestJobsAndPollsHaveTheirTargets(t *testing.T) {
	p := startPuppet(t, func(*act) {}) // it tells its load nowhere
	g := start(t, func(c *Config) { c.LogJSON, c.LoadMonitorInterval, c.DrainSettle = true, 1, 1 })
	id := g.add(t, `{"url":"`+p.URL+`"}`)
	g.becomes(t, id, "ready")
	g.until(t, func() bool { return strings.Contains(g.Log.String(), "worker tells no load") })
	w := g.only(t)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
	g.until(t, w.Draining)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodPatch, "/workers/"+id, `{"priority":1}`).StatusCode)
	g.until(t, func() bool { return strings.Contains(g.Log.String(), "a job failed") })
	var found []string
	for _, line := range g.Log.parsed(t) {
		if line.Target == "smg::jobs" || line.Target == "smg::load_monitor" {
			require.Equal(t, p.URL, line.Worker)
			found = append(found, line.Target+" "+line.Level+" "+line.Message)
		}
	}
	require.Equal(t, []string{"smg::load_monitor INFO worker tells no load", "smg::jobs ERROR a job failed"}, found)
}

// telemetry.md section 7.6: what happens to workers is logged, once, and a breaker that opens is a warning.
func TestWhatHappensToAWorkerIsInTheLog(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.LogJSON, c.DrainSettle = true, 0 })
	id := g.add(t, `{"url":"`+e.URL+`"}`)
	g.becomes(t, id, "ready")
	w := g.gateway.registry.All()[0]
	w.SetStatus(workers.NotReady)
	w.SetStatus(workers.Ready)
	trip(t, w)
	w.Breaker().Reset()
	require.NoError(t, g.gateway.enroller.Remove(w.ID()))
	g.until(t, func() bool { return strings.Contains(g.Log.String(), "worker removed") })
	var found []string
	for _, line := range g.Log.parsed(t) {
		if line.Worker == e.URL {
			require.Equal(t, "smg::worker", line.Target)
			found = append(found, line.Level+" "+line.Message)
		}
	}
	require.Equal(t, []string{
		"INFO worker changed its state", "INFO worker registered", "INFO worker changed its state", "INFO worker changed its state",
		"WARN circuit breaker moved", "INFO circuit breaker moved", "INFO worker removed",
	}, found)
}
