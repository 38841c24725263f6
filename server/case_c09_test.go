package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// routesWithModel are the inference routes with a body each, in which MODEL stands for the model.
var routesWithModel = []struct{ path, body string }{
	{chatPath, `{"model":"MODEL","messages":[{"role":"user","content":"hi"}]}`},
	{chatPath, `{"messages":[{"role":"user","content":"hi"}],"stream":true,"model":"MODEL"}`},
	{"/v1/completions", `{"model":"MODEL","prompt":"hi"}`},
	{"/generate", `{"model":"MODEL","text":"hi"}`},
	{"/v1/embeddings", `{"model":"MODEL","input":"hi"}`},
	{"/v1/classify", `{"model":"MODEL","input":"hi"}`},
	{"/v1/responses", `{"model":"MODEL","input":"hi"}`},
	{"/rerank", `{"model":"MODEL","query":"hi","documents":["a"]}`},
	{"/v1/rerank", `{"model":"MODEL","query":"hi","documents":["a"]}`},
}

// Case C09, http-dataplane.md section 5.2 and DECISIONS.md rows 21 and 40: a model that nobody serves is 404 on every route, and no
// worker hears of it; neither spelling nor blanks are forgiven.
func TestC09AModelThatNobodyServesIsNotFound(t *testing.T) {
	tests := []struct {
		name      string
		configure func(*Config)
	}{
		{"with a model for each worker", func(c *Config) { c.EnableIGW = true }},
		{"with bodies that are read", nil},
		{"with bodies that are streamed", func(c *Config) { c.DisableRetries = true }},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			engines := []*engine.Running{engine.Start(t, engine.Config{Name: "W1"})}
			if i == 0 {
				engines = append(engines, engine.Start(t, engine.Config{Name: "W2", Models: []string{"m2"}}))
			}
			g := start(t, tt.configure, engines...)
			for _, route := range routesWithModel {
				for _, model := range []string{"nope", "M1", " m1 ", "m1 ", "m", "m11", "m1\\u0000", "m1,m2", "*"} {
					r := g.post(t, route.path, strings.ReplaceAll(route.body, "MODEL", model))
					requireJSONError(t, r, http.StatusNotFound, "model_not_found")
					require.Empty(t, r.Header.Get("Retry-After"), "waiting does not help")
				}
			}
			r := g.post(t, "/v1/messages", `{"model":"nope","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`)
			require.Equal(t, http.StatusNotFound, r.StatusCode)
			require.Equal(t, "model_not_found", r.Header.Get("X-SMG-Error-Code"))
			require.Contains(t, r.Body, `"type":"not_found_error"`)
			for _, e := range engines {
				require.Empty(t, posts(e))
			}
			require.Contains(t, g.post(t, chatPath, chat).Body, `"id":"W1-`)
		})
	}
}

// C09: a model whose workers are all out is 503 on every route, which clients try again; no worker of another model steps in.
func TestC09AModelWhoseWorkersAreOutIsUnavailable(t *testing.T) {
	t.Parallel() // it waits
	w1 := engine.Start(t, engine.Config{Name: "W1"})
	w2 := engine.Start(t, engine.Config{Name: "W2", Models: []string{"m2"}})
	g := start(t, func(c *Config) {
		c.EnableIGW, c.DisableRetries, c.CBFailureThreshold, c.CBTimeout = true, true, 2, 3600
		c.HealthFailureThreshold, c.HealthCheckInterval = 1, 1
	}, w1, w2)
	unavailable := func(t *testing.T, reason string) {
		t.Helper()
		before := len(posts(w1))
		for _, route := range routesWithModel {
			r := g.post(t, route.path, strings.ReplaceAll(route.body, "MODEL", "m1"))
			requireJSONError(t, r, http.StatusServiceUnavailable, "no_available_workers")
			require.Equal(t, "1", r.Header.Get("Retry-After"))
			require.Contains(t, r.Body, reason)
		}
		require.Len(t, posts(w1), before)
		require.Empty(t, posts(w2))
	}

	w1.SetFaults(engine.Fault{Status: 500})
	for range 2 {
		require.Equal(t, http.StatusInternalServerError, g.post(t, chatPath, chat).StatusCode)
	}
	unavailable(t, "circuit breaker open")

	w1.Down()
	g.until(t, func() bool { return g.worker(t, w1.URL).Status() != workers.Ready })
	unavailable(t, "unhealthy")

	other := strings.ReplaceAll(chat, "m1", "m2")
	require.Contains(t, g.post(t, chatPath, other).Body, `"id":"W2-`, "the other model is served")
}

// C09, http-dataplane.md section 5.2: a request that names no model is refused where there are several, and otherwise served; it is
// never a failure.
func TestC09ARequestWithoutAModelIsNoFailure(t *testing.T) {
	w1 := engine.Start(t, engine.Config{Name: "W1"})
	several := start(t, func(c *Config) { c.EnableIGW = true }, w1)
	single := start(t, nil, w1)
	for _, route := range routesWithModel {
		for _, model := range []string{`"model":"MODEL",`, `,"model":"MODEL"`} {
			body := strings.Replace(route.body, model, "", 1)
			if body == route.body {
				continue
			}
			before := len(posts(w1))
			r := several.post(t, route.path, body)
			require.Equal(t, http.StatusBadRequest, r.StatusCode, r.Body)
			require.NotEmpty(t, r.Header.Get("X-SMG-Error-Code"))
			require.Contains(t, r.Body, `"param":"model"`)
			require.Len(t, posts(w1), before)

			r = single.post(t, route.path, body)
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, r.StatusCode, r.Body)
			if r.StatusCode == http.StatusBadRequest {
				require.Contains(t, r.Body, `"param":"model"`, "the route's own rules ask for a model")
			}
		}
	}
}
