package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const (
	friend   = "http://a.example"
	stranger = "http://b.example"
)

// Case C40 (preflights), http-dataplane.md section 12.4, DECISIONS.md row 36: with origins configured a browser's preflight is
// answered by the gateway, for every path, and no worker hears of it.
func TestC40PreflightsAreAnsweredByTheGateway(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.CORSAllowedOrigins = []string{friend, "http://c.example"} }, e)
	for _, path := range []string{chatPath, "/v1/messages", "/v1/models", "/v1/models/m1", "/workers", "/health", "/no/such/path"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			t.Run(method+" "+path, func(t *testing.T) {
				asked := []string{"Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization,content-type,x-stainless-os"}
				r := g.do(t, http.MethodOptions, path, "", append(asked, "Origin", friend)...)
				require.Equal(t, http.StatusNoContent, r.StatusCode)
				require.Equal(t, []string{friend}, r.Header.Values("Access-Control-Allow-Origin"))
				require.Contains(t, r.Header.Get("Access-Control-Allow-Methods"), method)
				for _, name := range []string{"authorization", "content-type", "x-stainless-os"} {
					require.Contains(t, strings.ToLower(r.Header.Get("Access-Control-Allow-Headers")), name)
				}
				require.Equal(t, "3600", r.Header.Get("Access-Control-Max-Age"))
				require.Contains(t, r.Header.Values("Vary"), "Origin")

				r = g.do(t, http.MethodOptions, path, "", append(asked, "Origin", stranger)...)
				require.Empty(t, r.Header.Values("Access-Control-Allow-Origin"))
			})
		}
	}
	for _, r := range e.Requests() {
		require.NotEqual(t, http.MethodOptions, r.Method)
	}
}

// C40: real answers say once who may read them, and it is the gateway that says so, whatever the worker thinks.
func TestC40AnswersSayOnceWhoMayReadThem(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.CORSAllowedOrigins = []string{friend} }, e)
	workers := engine.Headers{
		"Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Access-Control-Expose-Headers: x-secret", "X-Keep: yes",
	}
	tests := []struct {
		name, method, path, body string
		fault                    engine.Fault
		status                   int
	}{
		{"an answer", "POST", chatPath, chat, engine.Fault{Headers: workers}, 200},
		{"a stream", "POST", chatPath, chats, engine.Fault{Headers: workers, Chunks: fiveEvents}, 200},
		{"a worker's error", "POST", chatPath, chat, engine.Fault{Headers: workers, Status: 400}, 400},
		{"a worker's failure", "POST", chatPath, chat, engine.Fault{Headers: workers, Status: 500}, 500},
		{"an error of the gateway", "POST", chatPath, "{", engine.Fault{}, 400},
		{"a model that nobody serves", "POST", chatPath, strings.Replace(chat, "m1", "m9", 1), engine.Fault{}, 404},
		{"an unknown path", "POST", "/no/such/path", "{}", engine.Fault{}, 404},
		{"a wrong method", "PUT", chatPath, "{}", engine.Fault{}, 405},
		{"a list", "GET", "/v1/models", "", engine.Fault{}, 200},
		{"a proxied question", "GET", "/get_server_info", "", engine.Fault{Path: "/get_server_info", Method: "GET", Headers: workers}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e.SetFaults(tt.fault)
			r := g.do(t, tt.method, tt.path, tt.body, "Origin", friend)
			require.Equal(t, tt.status, r.StatusCode, r.Body)
			require.Equal(t, []string{friend}, r.Header.Values("Access-Control-Allow-Origin"))
			require.Len(t, r.Header.Values("Access-Control-Expose-Headers"), 1)
			require.Contains(t, strings.ToLower(r.Header.Get("Access-Control-Expose-Headers")), "x-request-id")
			require.Empty(t, r.Header.Values("Access-Control-Allow-Credentials"))
			if len(tt.fault.Headers) > 0 {
				require.Equal(t, "yes", r.Header.Get("X-Keep"))
			}
			for _, origin := range []string{stranger, "null", "http://a.example.evil", "https://a.example", "http://a.example:8080"} {
				r = g.do(t, tt.method, tt.path, tt.body, "Origin", origin)
				require.Equal(t, tt.status, r.StatusCode, "the browser decides, not the gateway")
				require.Empty(t, r.Header.Values("Access-Control-Allow-Origin"), origin)
			}
		})
	}
}

// C40: without the flag the gateway has nothing to say about origins, and leaves what the worker says.
func TestC40WithoutTheFlagThereIsNoCORS(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	requireNone := func(r response) {
		t.Helper()
		for name := range r.Header {
			require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
		}
	}
	requireNone(g.post(t, chatPath, chat, "Origin", friend))
	requireNone(g.post(t, chatPath, chats, "Origin", friend))
	requireNone(g.post(t, chatPath, "{", "Origin", friend))
	preflight := g.do(t, http.MethodOptions, chatPath, "", "Origin", friend, "Access-Control-Request-Method", "POST")
	requireNone(preflight)
	requireJSONError(t, preflight, http.StatusMethodNotAllowed, "method_not_allowed")
	e.SetFaults(engine.Fault{Headers: engine.Headers{"Access-Control-Allow-Origin: *"}})
	require.Equal(t, []string{"*"}, g.post(t, chatPath, chat, "Origin", friend).Header.Values("Access-Control-Allow-Origin"))
}

// C40: HEAD is GET without the body.
func TestC40HEADIsGETWithoutTheBody(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	none := start(t, nil)
	for _, path := range []string{
		"/health", "/liveness", "/readiness", "/v1/models", "/v1/models/m1", "/v1/models/m9", "/workers", "/workers/x", "/get_server_info", "/no/such/path",
	} {
		for _, at := range []*running{g, none} {
			t.Run(path, func(t *testing.T) {
				get := at.get(t, path)
				c := at.dial(t)
				r := c.ask(t, true, "HEAD "+path+" HTTP/1.1\r\nHost: gateway\r\n\r\n")
				require.Equal(t, get.StatusCode, r.Status)
				require.Equal(t, get.Header.Values("Content-Type"), r.Head["Content-Type"])
				require.Equal(t, get.Header.Values("X-SMG-Error-Code"), r.Head.Values("X-SMG-Error-Code"))
				require.NotEmpty(t, r.Head.Get("X-Request-Id"))
				// Had there been a body, it would be in the way of the next answer.
				require.Equal(t, http.StatusOK, c.ask(t, false, "GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").Status)
			})
		}
	}
}

// C40, DECISIONS.md row 25: a wrong method is 405 and says which are right; what is no path of the gateway is 404. Neither reaches a
// worker, however the path is written.
func TestC40WhatIsNoRouteIsRefused(t *testing.T) {
	tests := []struct{ method, path, allow string }{
		{"GET", chatPath, "POST"},
		{"HEAD", chatPath, "POST"},
		{"PUT", chatPath, "POST"},
		{"DELETE", chatPath, "POST"},
		{"OPTIONS", chatPath, "POST"},
		{"TRACE", chatPath, "POST"},
		{"BREW", chatPath, "POST"},
		{"post", chatPath, "POST"},
		{"GET", "/generate", "POST"},
		{"POST", "/health", "GET, HEAD"},
		{"POST", "/readiness", "GET, HEAD"},
		{"POST", "/v1/models", "GET, HEAD"},
		{"DELETE", "/v1/models/m1", "GET, HEAD"},
		{"POST", chatPath + "/", ""},
		{"POST", "/v1/chat", ""},
		{"POST", "/", ""},
		{"POST", "/" + chatPath, ""},
		{"POST", "/v1//chat/completions", ""},
		{"POST", "/v1/./chat/completions", ""},
		{"POST", "/v1/x/../chat/completions", ""},
		{"POST", "/V1/chat/completions", ""},
		{"POST", "/v1/chat/completions/extra", ""},
		{"POST", "/v1/chat%2Fcompletions", ""},
		{"POST", "/flush_cache_now", ""},
		{"GET", "/get_load", ""},
		{"GET", "/version", ""}, // workers.md, section 14: another gateway would take this one for an engine
		{"GET", "/server_info", ""},
		{"GET", "/model_info", ""},
		{"GET", "/metrics", ""},
		{"BREW", "/no/such/path", ""},
		{"GET", "/no/such/path?model=m1", ""},
		{"GET", "/%00", ""},
		{"GET", "/%ff", ""},
	}
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	before := len(asked(e))
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			c := g.dial(t)
			r := c.ask(t, tt.method == http.MethodHead, tt.method+strings.TrimPrefix(rawPost("HTTP/1.1", tt.path, chat), "POST"))
			want, code := http.StatusNotFound, "unknown_url"
			if tt.allow != "" {
				want, code = http.StatusMethodNotAllowed, "method_not_allowed"
				require.Equal(t, []string{tt.allow}, r.Head["Allow"])
			}
			require.Equal(t, want, r.Status)
			require.Equal(t, []string{"application/json"}, r.Head["Content-Type"])
			require.Equal(t, code, r.Head.Get("X-SMG-Error-Code"))
			require.NotEmpty(t, r.Head.Get("X-Request-Id"))
			if tt.method != http.MethodHead {
				require.Contains(t, r.Body, `"message":`)
			}
			require.Len(t, asked(e), before)
		})
	}
}

// C40, http-dataplane.md section 12.1: a preflight needs no key, and a browser may read that its request does.
func TestC40PreflightsNeedNoKey(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) {
		key := "k"
		c.CORSAllowedOrigins, c.APIKey = []string{friend}, &key
	}, e)
	for _, path := range []string{chatPath, "/workers", "/flush_cache"} {
		r := g.do(t, http.MethodOptions, path, "", "Origin", friend, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization,content-type,x-stainless-os")
		require.Equal(t, http.StatusNoContent, r.StatusCode)
		require.Equal(t, []string{friend}, r.Header.Values("Access-Control-Allow-Origin"))
	}
	before := len(posts(e))
	r := g.post(t, chatPath, chat, "Origin", friend)
	requireJSONError(t, r, http.StatusUnauthorized, "invalid_api_key")
	require.Equal(t, []string{friend}, r.Header.Values("Access-Control-Allow-Origin"))
	require.Len(t, posts(e), before)
	for _, body := range []string{chat, chats} {
		r = g.post(t, chatPath, body, "Origin", friend, "Authorization", "Bearer k")
		require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
		require.Equal(t, []string{friend}, r.Header.Values("Access-Control-Allow-Origin"))
	}
}
