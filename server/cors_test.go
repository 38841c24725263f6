package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const app = "https://app.example"

// DECISIONS.md row 36, http-dataplane.md section 12.4, capture.md 0.20
func TestABrowserIsToldWhatItMayDo(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.CORSAllowedOrigins = []string{app, "http://localhost:5173"} }, w)
	before := len(asked(w))
	for _, path := range []string{chatPath, "/v1/models", "/workers/" + someID, "/nope"} {
		t.Run("before it asks for "+path, func(t *testing.T) {
			got := g.do(t, http.MethodOptions, path, "", "Origin", app, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization,content-type,x-smg-routing-key,x-stainless-os")
			require.Equal(t, http.StatusNoContent, got.StatusCode)
			require.Equal(t, app, got.Header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "3600", got.Header.Get("Access-Control-Max-Age"))
			require.Empty(t, got.Header.Get("Access-Control-Allow-Credentials"))
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				require.Contains(t, strings.Split(got.Header.Get("Access-Control-Allow-Methods"), ","), method)
			}
			for _, name := range []string{"authorization", "content-type", "x-smg-routing-key", "x-stainless-os"} {
				require.Contains(t, strings.ToLower(got.Header.Get("Access-Control-Allow-Headers")), name)
			}
		})
	}
	for _, origin := range []string{"https://other.example", app + ".evil.example", "http://app.example", "null", "https://app-example"} {
		t.Run("nothing, at "+origin, func(t *testing.T) {
			for _, method := range []string{http.MethodOptions, http.MethodGet} {
				got := g.do(t, method, "/v1/models", "", "Origin", origin, "Access-Control-Request-Method", "GET")
				require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
				require.Empty(t, got.Header.Get("Access-Control-Allow-Methods"))
				require.Contains(t, got.Header.Values("Vary"), "Origin", "a cache in between must tell the origins apart")
			}
		})
	}
	require.Len(t, asked(w), before, "no preflight reaches a worker")
}

// DECISIONS.md row 36: every answer names the origin once, whatever a worker says, and lets the page see the gateway's own fields.
func TestABrowserMayReadAnswersAndErrors(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.CORSAllowedOrigins = []string{app} }, w)
	w.SetFaults(engine.Fault{Path: "/v1/*", Method: "POST", Headers: engine.Headers{"Access-Control-Allow-Origin: *", "Vary: Accept-Encoding"}})
	for name, got := range map[string]response{
		"an answer": g.post(t, chatPath, chat, "Origin", app), "a stream": g.post(t, chatPath, chats, "Origin", app),
		"an error of the gateway": g.post(t, chatPath, "{", "Origin", app), "an unknown path": g.do(t, "GET", "/nope", "", "Origin", app),
		"a worker's list": g.do(t, "GET", "/workers", "", "Origin", app),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{app}, got.Header.Values("Access-Control-Allow-Origin"))
			exposed := strings.Split(strings.ToLower(got.Header.Get("Access-Control-Expose-Headers")), ",")
			require.Subset(t, exposed, []string{"x-request-id", "x-smg-routed-worker-id", "x-smg-error-code", "retry-after", "traceparent", "tracestate"})
			require.Contains(t, got.Header.Values("Vary"), "Origin")
			if got.Header.Get("X-Smg-Routed-Worker-Id") != "" {
				require.Contains(t, got.Header.Values("Vary"), "Accept-Encoding", "what the worker says of its answer stays")
			}
		})
	}
	plain := g.post(t, chatPath, chat)
	require.NotContains(t, plain.Header, "Access-Control-Expose-Headers", "nobody else is told")
}

// http-dataplane.md section 12.4: an OPTIONS that no browser sends is a method like any other.
func TestAnOptionsThatIsNoPreflightIsAWrongMethod(t *testing.T) {
	g := start(t, func(c *Config) { c.CORSAllowedOrigins = []string{"*"} })
	got := g.do(t, http.MethodOptions, chatPath, "")
	require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode)
	require.Equal(t, "POST", got.Header.Get("Allow"))
	require.NotEmpty(t, got.Header.Get("X-Request-Id"))
	any := g.do(t, http.MethodOptions, chatPath, "", "Origin", "http://x.example", "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, any.StatusCode)
	require.Equal(t, "*", any.Header.Get("Access-Control-Allow-Origin"))
}

// DECISIONS.md row 36
func TestWithoutTheFlagThereIsNoCORS(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	for _, got := range []response{
		g.post(t, chatPath, chat, "Origin", app), g.do(t, "GET", "/v1/models", "", "Origin", app),
		g.do(t, http.MethodOptions, chatPath, "", "Origin", app, "Access-Control-Request-Method", "POST"),
	} {
		require.NotContains(t, got.Header, "Access-Control-Allow-Origin")
		require.NotContains(t, got.Header, "Vary")
	}
}
