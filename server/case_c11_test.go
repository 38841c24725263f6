package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C11, http-dataplane.md sections 9.1 and 10: a worker's answer that is an error reaches the client as the worker wrote it, its
// Retry-After and rate-limit headers included; after retries it is the last attempt's. What asked for a stream and got JSON is JSON.
func TestC11AWorkersErrorReachesTheClientAsItIs(t *testing.T) {
	const body = `{"error":{"message":"slow down","type":"rate_limit_error"}}`
	const date = "Wed, 21 Oct 2037 07:28:00 GMT"
	with := func(status int, retryAfter string) engine.Fault {
		return engine.Fault{
			Status: status, Body: body, Count: 1,
			Headers: engine.Headers{
				"Retry-After: " + retryAfter, "x-ratelimit-remaining-requests: 0", "X-RateLimit-Reset-Tokens: 6m0s", "x-thing: a", "X-Thing: b",
			},
		}
	}
	once := func(c *Config) { c.DisableRetries = true }
	single := func(c *Config) { c.RetryMaxRetries = 1 }
	thrice := func(c *Config) { c.RetryMaxRetries, c.RetryMaxBackoff = 3, 1 }
	tests := []struct {
		name      string
		configure func(*Config)
		faults    []engine.Fault // what the attempts get, one after the other
		attempts  int
	}{
		{"seconds", once, []engine.Fault{with(429, "7")}, 1},
		{"a date", once, []engine.Fault{with(503, date)}, 1},
		{"with one attempt of those that could be more", single, []engine.Fault{with(429, "7")}, 1},
		{"the last of several attempts", thrice, []engine.Fault{with(429, "7"), with(503, date), with(429, "9")}, 3},
		{"an attempt that ends the retries", thrice, []engine.Fault{with(429, "7"), with(400, "9")}, 2},
		{"a 500, which is not tried again where it came from", thrice, []engine.Fault{with(500, "7")}, 1},
		{"a time-out that the worker tells of", thrice, []engine.Fault{with(408, "1"), with(504, "2"), with(502, "3")}, 3},
		{"a status that nobody retries", thrice, []engine.Fault{with(422, "7")}, 1},
		{"a status that nobody knows", thrice, []engine.Fault{with(599, "7")}, 1},
		{"no number, nor a date", thrice, []engine.Fault{with(429, "soon"), with(429, "-1"), with(429, "99999999999999999999")}, 3},
	}
	for _, tt := range tests {
		for _, request := range []string{chat, chats} {
			t.Run(tt.name+map[string]string{chat: "", chats: ", a stream was asked for"}[request], func(t *testing.T) {
				w := engine.Start(t, engine.Config{})
				w.SetFaults(tt.faults...)
				g := start(t, tt.configure, w)
				r := g.post(t, chatPath, request)

				require.NoError(t, r.Err)
				last := tt.faults[len(tt.faults)-1]
				require.Equal(t, last.Status, r.StatusCode)
				require.Equal(t, body, r.Body)
				require.Equal(t, "application/json", r.Header.Get("Content-Type"))
				require.Equal(t, strings.TrimPrefix(last.Headers[0], "Retry-After: "), r.Header.Get("Retry-After"))
				require.Equal(t, "0", r.Header.Get("X-Ratelimit-Remaining-Requests"))
				require.Equal(t, "6m0s", r.Header.Get("X-Ratelimit-Reset-Tokens"))
				require.Equal(t, []string{"a", "b"}, r.Header.Values("X-Thing"))
				require.Empty(t, r.Header.Get("X-SMG-Error-Code"), "the gateway made no error")
				require.Equal(t, w.URL, r.Header.Get("X-Smg-Routed-Worker-Id"))
				require.Len(t, posts(w), tt.attempts)
			})
		}
	}
}

// C11 on every route: an error of the engine's own shape.
func TestC11AWorkersErrorReachesTheClientOnEveryRoute(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.DisableRetries = true }, w)
	w.SetFaults(engine.Fault{Status: 429, RetryAfter: "7", Body: "{\"detail\": \"busy\"}\n"})
	routes := append(routesWithModel[:len(routesWithModel):len(routesWithModel)], struct{ path, body string }{
		"/v1/messages", `{"model":"m1","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`,
	})
	for _, route := range routes {
		r := g.post(t, route.path, strings.ReplaceAll(route.body, "MODEL", "m1"))
		require.Equal(t, http.StatusTooManyRequests, r.StatusCode, route.path)
		require.Equal(t, "7", r.Header.Get("Retry-After"), route.path)
		require.Equal(t, "{\"detail\": \"busy\"}\n", r.Body, route.path)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"), route.path)
	}
}
