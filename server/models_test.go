package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// http-dataplane.md section 5.3, workers.md section 18, capture.md 0.9
func TestModelsAreThoseThatWorkersServe(t *testing.T) {
	const a, b = `{"id":"a","object":"model","created":0,"owned_by":"self_hosted"}`, `{"id":"org/b","object":"model","created":0,"owned_by":"self_hosted"}`
	ws := []*engine.Running{
		engine.Start(t, engine.Config{Models: []string{"org/b"}}), engine.Start(t, engine.Config{Models: []string{"a"}}),
		engine.Start(t, engine.Config{Models: []string{"org/b"}, Engine: engine.VLLM}),
	}
	g := start(t, func(c *Config) { c.ModelAliases = []ModelAlias{{Alias: "short", Model: "org/b"}} }, ws...)
	g.serving(t, len(ws))
	seen := 0
	for _, w := range ws {
		seen += len(asked(w))
	}
	tests := []struct {
		name, path string
		status     int
		body       string
	}{
		{"each is listed once, by its id, and no alias", "/v1/models", 200, `{"object":"list","data":[` + a + `,` + b + `]}`},
		{"one is shown", "/v1/models/a", 200, a},
		{"one with a slash is shown", "/v1/models/org/b", 200, b},
		{"one with a slash is shown, whichever way it is written", "/v1/models/org%2Fb", 200, b},
		{"an alias is answered with what it stands for", "/v1/models/short", 200, b},
		{
			"one that nobody serves is not there", "/v1/models/c%22", 404,
			openAIError(`No worker available for model 'c\"'`, "invalid_request_error", "null", "model_not_found", ""),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := g.get(t, tt.path)
			require.Equal(t, tt.status, got.StatusCode)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.Equal(t, tt.body, got.Body)
		})
	}
	for _, w := range ws {
		seen -= len(asked(w))
	}
	require.Zero(t, seen, "no worker is asked")
}

// DECISIONS.md row 25
func TestWithoutAWorkerThereIsNoModel(t *testing.T) {
	g := start(t, nil)
	got := g.get(t, "/v1/models")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, "no_models_available", got.Header.Get("X-Smg-Error-Code"))
	require.Equal(t, openAIError("No models available", "server_error", "null", "no_models_available", ""), got.Body)
}
