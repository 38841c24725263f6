package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// The keys of C19. They are looked for in logs and answers, so they are like nothing else there.
const (
	workersKey = "wk-9d8a61"
	callersKey = "user-77c2f0"
)

// keyed is a gateway in front of one engine that was registered with a key of its own; it logs everything.
func keyed(t *testing.T, configure func(*Config), e *engine.Running) *running {
	t.Helper()
	g := start(t, func(c *Config) {
		c.LogLevel = "debug"
		configure(c)
	})
	r := g.post(t, "/workers", `{"url":"`+e.URL+`","api_key":"`+workersKey+`"}`)
	require.Equal(t, http.StatusAccepted, r.StatusCode)
	require.NotContains(t, r.Body, workersKey)
	g.serving(t, 1)
	return g
}

// Case C19 (two Authorization headers), http-dataplane.md section 6: a worker sees exactly one, the caller's if there is one, else
// its own key; on every route, and however the body goes.
func TestC19AWorkerSeesExactlyOneAuthorization(t *testing.T) {
	requests := []struct{ name, path, body string }{
		{"a chat", chatPath, chat},
		{"a streamed chat", chatPath, chats},
		{"a chat that is streamed on its way in", chatPath, chatOf(1 << 10)},
		{"a completion", "/v1/completions", `{"model":"m1","prompt":"hi"}`},
		{"a native request", "/generate", `{"text":"hi"}`},
		{"embeddings", "/v1/embeddings", `{"model":"m1","input":"hi"}`},
		{"classification", "/v1/classify", `{"model":"m1","input":"hi"}`},
		{"a message", "/v1/messages", `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{"a response", "/v1/responses", `{"model":"m1","input":"hi"}`},
		{"a rerank", "/rerank", `{"model":"m1","query":"q","documents":["a"]}`},
		{"a proxied question", "/get_server_info", ""},
		{"a proxied probe", "/health_generate", ""},
	}
	callers := []struct {
		name  string
		lines []string
		want  string
	}{
		{"a caller with a key", []string{"Authorization", "Bearer " + callersKey}, "Bearer " + callersKey},
		{"a caller with a key in another scheme", []string{"authorization", "Basic " + callersKey}, "Basic " + callersKey},
		{"a caller without a key", nil, "Bearer " + workersKey},
		{"a caller with a key in another header", []string{"x-api-key", callersKey, "Proxy-Authorization", "Bearer " + callersKey}, "Bearer " + workersKey},
	}
	e := engine.Start(t, engine.Config{})
	g := keyed(t, func(c *Config) { c.MaxBufferedRequestBytes = 512 }, e)
	for _, rq := range requests {
		for _, by := range callers {
			t.Run(rq.name+" of "+by.name, func(t *testing.T) {
				e.ClearRequests()
				require.Equal(t, http.StatusOK, g.do(t, methodFor(rq.body), rq.path, rq.body, by.lines...).StatusCode)
				seen := asked(e)
				require.Len(t, seen, 1)
				require.Equal(t, []string{by.want}, seen[0].Values("Authorization"))
				if by.want == "Bearer "+workersKey {
					require.NotContains(t, strings.Join(seen[0].Head, "\n"), callersKey)
				}
			})
		}
	}
	for _, by := range callers { // a command is the gateway's own question, DECISIONS.md row 39: the caller's key is none of the engine's
		t.Run("a flush of "+by.name, func(t *testing.T) {
			e.ClearRequests()
			require.Equal(t, http.StatusOK, g.sent(t, http.MethodPost, "/flush_cache", "", by.lines...).StatusCode)
			seen := commanded(e, "/flush_cache")
			require.Len(t, seen, 1)
			require.Equal(t, []string{"Bearer " + workersKey}, seen[0].Values("Authorization"))
			require.NotContains(t, strings.Join(seen[0].Head, "\n"), callersKey)
		})
	}
	t.Run("a caller with two keys is no reason to send two", func(t *testing.T) {
		for _, path := range []string{chatPath, "/get_server_info"} {
			e.ClearRequests()
			body := map[string]string{chatPath: chat}[path]
			r := g.do(t, methodFor(body), path, body, "Authorization", "Bearer a", "Authorization", "Bearer b")
			seen := asked(e)
			if r.StatusCode == http.StatusBadRequest {
				require.Empty(t, seen)
				continue
			}
			require.Equal(t, http.StatusOK, r.StatusCode)
			require.Len(t, seen, 1)
			require.Len(t, seen[0].Values("Authorization"), 1)
		}
	})
	t.Run("a caller with an empty key adds none", func(t *testing.T) {
		e.ClearRequests()
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, "Authorization", "").StatusCode)
		require.Len(t, asked(e), 1)
		require.LessOrEqual(t, len(asked(e)[0].Values("Authorization")), 1)
	})
	requireSecret(t, g)
}

// asked are an engine's requests without probes and polls, which come when they like.
func asked(e *engine.Running) (found []engine.Request) {
	for _, r := range e.Requests() {
		if r.Path != "/health" && r.Path != "/v1/loads" && r.Path != "/metrics" {
			found = append(found, r)
		}
	}
	return found
}

func methodFor(body string) string {
	if body == "" {
		return http.MethodGet
	}
	return http.MethodPost
}

// requireSecret: no key is shown by the worker API or the log.
func requireSecret(t *testing.T, g *running) {
	t.Helper()
	list := g.get(t, "/workers").Body
	id := g.gateway.registry.All()[0].ID().String()
	for name, shown := range map[string]string{"the list": list, "the worker": g.get(t, "/workers/"+id).Body, "the log": g.Log.String()} {
		require.NotEmpty(t, shown)
		require.NotContains(t, shown, workersKey, name)
		require.NotContains(t, shown, callersKey, name)
	}
}

// C19: every question that the gateway asks for itself carries the worker's key, DECISIONS.md row 39; an engine that wants a key
// gets registered, probed and scraped.
func TestC19EveryQuestionToAWorkerCarriesItsKey(t *testing.T) {
	t.Parallel() // it waits
	e := engine.Start(t, engine.Config{APIKey: workersKey})
	g := keyed(t, func(c *Config) { c.HealthCheckInterval = 1 }, e)
	require.Equal(t, http.StatusOK, g.get(t, "/engine_metrics").StatusCode)
	registered := e.State().Paths["/health"]
	require.Eventually(t, func() bool { return e.State().Paths["/health"] > registered }, patience, patience/10_000)
	paths := map[string]bool{}
	for _, r := range e.Requests() {
		require.Equal(t, []string{"Bearer " + workersKey}, r.Values("Authorization"), r.Head[0])
		paths[r.Path] = true
	}
	require.Contains(t, paths, "/metrics")
	require.Contains(t, paths, "/v1/models")
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	requireSecret(t, g)
}

// C19: nor does a key get out where something goes wrong.
func TestC19KeysStaySecretWhenThingsGoWrong(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := keyed(t, func(c *Config) { c.RetryMaxRetries = 2 }, e)
	ask := func() response { return g.post(t, chatPath, chat, "Authorization", "Bearer "+callersKey) }
	for name, fault := range map[string]engine.Fault{
		"an error of the worker": {Status: 500}, "no answer": {Close: true}, "a garbled head": {Malformed: engine.GarbledHead},
		"a body that breaks off": {CutAfterBytes: new(int)}, "a refused key": {Status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			e.SetFaults(fault)
			r := ask()
			require.GreaterOrEqual(t, r.StatusCode, 400)
			require.NotContains(t, r.Body, callersKey)
			require.NotContains(t, r.Body, workersKey)
		})
	}
	for name, spec := range map[string]string{
		"a worker that is there already": `{"url":"` + e.URL + `","api_key":"` + workersKey + `"}`,
		"a field of the wrong type":      `{"url":"http://127.0.0.1:1","priority":"x","api_key":"` + workersKey + `"}`,
		"a key of the wrong type":        `{"url":"http://127.0.0.1:1","api_key":["` + workersKey + `"]}`,
		"no JSON":                        `{"url":"http://127.0.0.1:1","api_key":"` + workersKey + `"`,
		"a bad URL":                      `{"url":"ftp://x","api_key":"` + workersKey + `"}`,
	} {
		t.Run("POST /workers with "+name, func(t *testing.T) {
			r := g.post(t, "/workers", spec)
			require.GreaterOrEqual(t, r.StatusCode, 400)
			require.NotContains(t, r.Body, workersKey)
		})
	}
	e.Down()
	require.GreaterOrEqual(t, ask().StatusCode, 500)
	requireSecret(t, g)
}
