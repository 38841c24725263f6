package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// inferenceRoutes are the routes that workers answer, with a small request for each. Those that stream take "stream":true as well,
// and end with what end says.
var inferenceRoutes = []struct {
	path   string
	body   string // of an object, without its closing brace
	worker string // the worker's path, if it is another
	ends   string // the last event of a stream; "" for routes that have none
}{
	{chatPath, `{"model":"m1","messages":[{"role":"user","content":"hi"}]`, "", "data: [DONE]\n\n"},
	{"/v1/completions", `{"model":"m1","prompt":"hi"`, "", "data: [DONE]\n\n"},
	{"/generate", `{"text":"hi"`, "", "data: [DONE]\n\n"},
	{"/v1/embeddings", `{"model":"m1","input":"hi"`, "", ""},
	{"/v1/classify", `{"model":"m1","input":"hi"`, "", ""},
	{"/v1/messages", `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`, "", "data: {\"type\":\"message_stop\"}\n\n"},
	{"/v1/messages/count_tokens", `{"model":"m1","messages":[{"role":"user","content":"hi"}]`, "", ""},
	{"/v1/responses", `{"model":"m1","input":"hi"`, "", "event: response.completed"},
	{"/rerank", `{"model":"m1","query":"q","documents":["a","b"]`, "/v1/rerank", ""},
	{"/v1/rerank", `{"query":"q","documents":["a","b"]`, "", ""},
}

// http-dataplane.md sections 2.1, 3.4, 14 and 16
func TestEveryInferenceRouteIsAnsweredByAWorker(t *testing.T) {
	w := engine.Start(t, engine.Config{Name: "W1"})
	g := start(t, nil, w)
	for _, r := range inferenceRoutes {
		worker := r.worker
		if worker == "" {
			worker = r.path
		}
		t.Run(r.path, func(t *testing.T) {
			w.ClearRequests()
			got := g.post(t, r.path, r.body+"}", "X-Request-Id", "one")
			require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.True(t, json.Valid([]byte(got.Body)), got.Body)
			requireRelayed(t, w, got, worker, r.body+"}")
		})
		if r.ends == "" {
			continue
		}
		t.Run(r.path+", streamed", func(t *testing.T) {
			w.ClearRequests()
			got := g.post(t, r.path, r.body+`,"stream":true}`, "X-Request-Id", "one")
			require.NoError(t, got.Err)
			require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
			require.Contains(t, got.Header.Get("Content-Type"), "text/event-stream")
			last := got.Body[strings.LastIndex(strings.TrimSuffix(got.Body, "\n\n"), "\n\n")+2:]
			require.Contains(t, last, strings.TrimSuffix(r.ends, "\n\n"))
			require.Greater(t, strings.Count(got.Body, "data: "), 3, "more than one event")
			requireRelayed(t, w, got, worker, r.body+`,"stream":true}`)
		})
	}
	g.quiet(t)
}

// requireRelayed: the worker got the client's bytes, and the response says where it comes from.
func requireRelayed(t *testing.T, w *engine.Running, got response, path, body string) {
	t.Helper()
	require.Equal(t, "one", got.Header.Get("X-Request-Id"))
	require.Equal(t, []string{w.URL}, got.Header.Values("X-Smg-Routed-Worker-Id"))
	require.Empty(t, got.Header.Get("X-Smg-Error-Code"))
	seen := posts(w)
	require.Len(t, seen, 1)
	require.Equal(t, path, seen[0].Path)
	require.Equal(t, body, string(seen[0].Body))
}

// errorForm makes the body of an error as a route's clients expect it.
type errorForm func(message, kind, param, code, requestID string) string

func openAIError(message, kind, param, code, _ string) string {
	if param != "null" {
		param = `"` + param + `"`
	}
	return `{"error":{"message":"` + message + `","type":"` + kind + `","param":` + param + `,"code":"` + code + `"}}`
}

func formOf(path string) errorForm {
	if strings.HasPrefix(path, "/v1/messages") {
		return func(message, kind, _, code, requestID string) string {
			switch {
			case code == "model_not_found":
				kind = "not_found_error"
			case code == "request_body_too_large":
				kind = "request_too_large"
			case kind == "server_error":
				kind = "overloaded_error"
			}
			return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"` + requestID + `"}`
		}
	}
	return openAIError
}

// DECISIONS.md rows 25 to 27 and 30, http-dataplane.md sections 3.1, 3.2 and 5.2: what the gateway refuses, no worker hears of, and
// every route says it in the form of its clients.
func TestErrorsHaveTheFormOfTheirRoute(t *testing.T) {
	const limit = 1000
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.MaxPayloadSize = limit }, w)
	for _, r := range inferenceRoutes {
		form := formOf(r.path)
		ask := func(t *testing.T, body string) (response, string) {
			got := g.post(t, r.path, body)
			require.Empty(t, posts(w))
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.Empty(t, got.Header.Get("X-Smg-Routed-Worker-Id"))
			return got, got.Header.Get("X-Request-Id")
		}
		refused := func(t *testing.T, got response, status int, code string) {
			require.Equal(t, status, got.StatusCode, got.Body)
			require.Equal(t, code, got.Header.Get("X-Smg-Error-Code"), got.Body)
		}
		t.Run(r.path+" with an unknown model", func(t *testing.T) {
			body := strings.Replace(r.body, `{`, `{"model":"nope",`, 1)
			body = strings.Replace(body, `"model":"m1",`, "", 1)
			got, id := ask(t, body+"}")
			refused(t, got, http.StatusNotFound, "model_not_found")
			require.Equal(t, form("No worker available for model 'nope'", "invalid_request_error", "model", "model_not_found", id), got.Body)
		})
		t.Run(r.path+" with a body that is too large", func(t *testing.T) {
			got, id := ask(t, r.body+strings.Repeat(" ", limit)+"}")
			refused(t, got, http.StatusRequestEntityTooLarge, "request_body_too_large")
			require.Equal(t, form("The request body is larger than the gateway accepts", "invalid_request_error", "null", "request_body_too_large", id), got.Body)
		})
		for name, refusal := range map[string]struct{ code, body, contentType string }{
			"with a body that is cut":       {"invalid_json", r.body, "application/json"},
			"with a body that is no object": {"invalid_type", "[1]", "application/json; charset=utf-8"},
			"with another content type":     {"json_parse_error", r.body + "}", "text/plain"},
		} {
			t.Run(r.path+" "+name, func(t *testing.T) {
				got := g.sent(t, http.MethodPost, r.path, refusal.body, "Content-Type", refusal.contentType)
				require.Empty(t, posts(w))
				refused(t, got, http.StatusBadRequest, refusal.code)
				var message struct {
					Error struct{ Type, Message string }
				}
				require.NoError(t, json.Unmarshal([]byte(got.Body), &message), got.Body)
				require.Equal(t, "invalid_request_error", message.Error.Type)
				want := form(message.Error.Message, "invalid_request_error", "null", refusal.code, got.Header.Get("X-Request-Id"))
				require.Equal(t, want, got.Body)
			})
		}
	}
}

// DECISIONS.md rows 21, 25, 26 and 30: with no worker at all the client may come again.
func TestWithoutAWorkerEveryRouteSaysWhenToComeAgain(t *testing.T) {
	g := start(t, func(c *Config) { c.DisableRetries = true })
	for _, r := range inferenceRoutes {
		t.Run(r.path, func(t *testing.T) {
			got := g.post(t, r.path, r.body+"}")
			require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
			require.Equal(t, "1", got.Header.Get("Retry-After"))
			require.Equal(t, "no_available_workers", got.Header.Get("X-Smg-Error-Code"))
			want := formOf(r.path)("No worker is registered", "server_error", "null", "no_available_workers", got.Header.Get("X-Request-Id"))
			require.Equal(t, want, got.Body)
		})
	}
}

// DECISIONS.md row 26: a worker's own errors are nobody's to rewrite, whatever the route.
func TestAWorkersErrorIsRelayedAsItIs(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	for _, r := range inferenceRoutes {
		for _, status := range []int{http.StatusBadRequest, http.StatusTeapot, http.StatusInternalServerError} {
			w.SetFaults(engine.Fault{Status: status, Body: "what the\nworker says", Headers: engine.Headers{"Content-Type: text/odd", "X-Worker: 1"}})
			got := g.post(t, r.path, r.body+"}")
			require.Equal(t, status, got.StatusCode, r.path)
			require.Equal(t, "what the\nworker says", got.Body)
			require.Equal(t, "text/odd", got.Header.Get("Content-Type"))
			require.Equal(t, "1", got.Header.Get("X-Worker"))
			require.Equal(t, w.URL, got.Header.Get("X-Smg-Routed-Worker-Id"))
			require.Empty(t, got.Header.Get("X-Smg-Error-Code"))
		}
	}
}
