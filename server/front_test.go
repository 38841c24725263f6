package server

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/telemetry"
)

const someID = "0199e5a0-0000-7000-8000-000000000000"

// http-dataplane.md section 2.6, DECISIONS.md rows 25, 36 and 43
func TestWhatNoRouteTakesIsRefused(t *testing.T) {
	const unknown, wrong = http.StatusNotFound, http.StatusMethodNotAllowed
	tests := []struct {
		name, method, path string
		status             int
		allow              string
	}{
		{"a path that nobody knows", "GET", "/nope", unknown, ""},
		{"the root", "GET", "/", unknown, ""},
		{"a route of another service", "POST", "/v1/images/generations", unknown, ""},
		{"a slash too many at the end", "POST", chatPath + "/", unknown, ""},
		{"a slash too many in front", "GET", "//health", unknown, ""},
		{"a path in capitals", "GET", "/HEALTH", unknown, ""},
		{"a worker of an older API", "GET", "/v1/workers", unknown, ""},
		{"a question that only engines answer", "GET", "/v1/loads", unknown, ""},
		{"a preflight for nothing", "OPTIONS", "/nope", unknown, ""},
		{"reading what takes a POST", "GET", "/generate", wrong, "POST"},
		{"asking for the head of what takes a POST", "HEAD", "/generate", wrong, "POST"},
		{"putting what takes a POST", "PUT", chatPath, wrong, "POST"},
		{"posting to a probe", "POST", "/health", wrong, "GET, HEAD"},
		{"deleting a model", "DELETE", "/v1/models/m1", wrong, "GET, HEAD"},
		{"deleting all workers", "DELETE", "/workers", wrong, "GET, HEAD, POST"},
		{"posting to a worker", "POST", "/workers/" + someID, wrong, "GET, HEAD, PATCH, PUT, DELETE"},
		{"a preflight while nobody turned CORS on", "OPTIONS", chatPath, wrong, "POST"},
		{"a preflight for a worker", "OPTIONS", "/workers/" + someID, wrong, "GET, HEAD, PATCH, PUT, DELETE"},
		{"a method that nobody knows", "BREW", "/health", wrong, "GET, HEAD"},
		{"a method that nobody knows for a path that nobody knows", "BREW", "/pot", unknown, ""},
	}
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	before := len(asked(w))
	refused := g.gateway.metrics.HTTP.Route(telemetry.PathOther)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, message := "unknown_url", "Invalid URL ("
			if tt.status == wrong {
				code, message = "method_not_allowed", "Method not allowed ("
			}
			count := refused.Response(tt.status, code)
			was := testutil.ToFloat64(count)
			got := g.do(t, tt.method, tt.path, "", "Origin", "http://a.example", "Access-Control-Request-Method", "POST", "X-Request-Id", "one")
			require.Equal(t, tt.status, got.StatusCode)
			require.Equal(t, code, got.Header.Get("X-Smg-Error-Code"))
			require.Equal(t, tt.allow, got.Header.Get("Allow"))
			require.Equal(t, "one", got.Header.Get("X-Request-Id"))
			for name := range got.Header {
				require.NotContains(t, name, "Access-Control")
			}
			if tt.method == http.MethodHead {
				require.Empty(t, got.Body)
			} else {
				require.Equal(t, openAIError(message+tt.method+" "+tt.path+")", "invalid_request_error", "null", code, ""), got.Body)
			}
			require.Equal(t, was+1, testutil.ToFloat64(count))
		})
	}
	require.Len(t, asked(w), before, "no worker hears of it")
}

// A path is the client's to write: what it says does not get out of its place in the answer.
func TestAPathCannotBreakTheErrorsForm(t *testing.T) {
	g := start(t, nil)
	got := g.get(t, `/a%22%7D%0a%3Cb%3E`)
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	var body struct{ Error struct{ Message string } }
	require.NoError(t, json.Unmarshal([]byte(got.Body), &body))
	require.Equal(t, `Invalid URL (GET /a%22%7D%0a%3Cb%3E)`, body.Error.Message)
}

// capture.md section 2.1: what answers GET answers HEAD with the same head.
func TestHeadIsAnsweredLikeGetWithoutABody(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.Policy, c.DisableLoadMonitoring = "round_robin", true }, w) // a report would come between two answers
	id := g.gateway.registry.All()[0].ID().String()
	for _, path := range []string{
		"/health", "/liveness", "/readiness", "/v1/models", "/v1/models/m1", "/v1/models/nope", "/workers", "/workers/" + id, "/workers/x",
		"/get_model_info", "/get_server_info", "/health_generate", "/engine_metrics",
	} {
		t.Run(path, func(t *testing.T) {
			get, head := g.get(t, path), g.do(t, http.MethodHead, path, "")
			require.Empty(t, head.Body)
			require.NoError(t, head.Err)
			require.Equal(t, get.StatusCode, head.StatusCode)
			require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"))
			require.Equal(t, get.Header.Get("X-Smg-Error-Code"), head.Header.Get("X-Smg-Error-Code"))
			require.NotEmpty(t, head.Header.Get("X-Request-Id"))
			if path != "/engine_metrics" { // which counts this request
				require.Equal(t, get.ContentLength, head.ContentLength)
			}
		})
	}
	g.quiet(t)
}
