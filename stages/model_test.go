package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, sections 5.1 and 5.2; DECISIONS 21: which model a request is for.
func TestModelIsResolvedOnce(t *testing.T) {
	registry := workers.NewRegistry(named(t, "http://127.0.0.1:1", "m1", workers.Regular), named(t, "http://127.0.0.1:2", "org/M2", workers.Regular))
	registry.Alias("alias", "m1")
	registry.Alias("nobody", "m9")
	tests := []struct {
		name, body string
		required   bool
		model      string
		served     bool
		code       string
	}{
		{"a model that is served", `{"model":"m1"}`, false, "m1", true, ""},
		{"a name with a slash", `{"model":"org/M2"}`, false, "org/M2", true, ""},
		{"a name in escapes", `{"model":"\u006d1"}`, false, "m1", true, ""},
		{"the last of two names", `{"model":"m9","model":"m1"}`, false, "m1", true, ""},
		{"an alias", `{"model":"alias"}`, false, "m1", true, ""},
		{"an alias of a model that nobody serves", `{"model":"nobody"}`, false, "", false, "model_not_found"},
		{"a name in another case", `{"model":"M1"}`, false, "", false, "model_not_found"},
		{"a name that nobody serves", `{"model":"m3"}`, false, "", false, "model_not_found"},
		{"no model", `{"text":"hi"}`, false, "", false, ""},
		{"null", `{"model":null}`, false, "", false, ""},
		{"an empty name", `{"model":""}`, false, "", false, ""},
		{"any model", `{"model":"unknown"}`, false, "", false, ""},

		{"many models: named", `{"model":"m1"}`, true, "m1", true, ""},
		{"many models: none", `{"text":"hi"}`, true, "", false, "missing_model"},
		{"many models: null", `{"model":null}`, true, "", false, "missing_model"},
		{"many models: empty", `{"model":""}`, true, "", false, "missing_model"},
		{"many models: blank", `{"model":" \t"}`, true, "", false, "missing_model"},
		{"many models: any", `{"model":"unknown"}`, true, "", false, "missing_model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := post("/generate", tt.body)
			x, err := c.through(t, append(bodyStages(Generate), Model(&Models{Registry: registry, Required: tt.required}, Generate), last(200, nil))...)
			require.Equal(t, tt.code, c.code())
			require.Equal(t, tt.model, x.Model)
			require.Equal(t, tt.served, x.Served)
			if tt.code != "" {
				require.Equal(t, map[string]int{"model_not_found": 404, "missing_model": 400}[tt.code], c.status)
				require.True(t, pipeline.AsError(err).Terminal)
				require.Contains(t, c.got.String(), `"param":"model"`)
			}
		})
	}
}

// DECISIONS 21: with nobody there at all, the question is left to the stages that may wait.
func TestModelIsNotRefusedWhileNobodyIsThere(t *testing.T) {
	c := chat()
	x, err := c.through(t, append(bodyStages(Chat), Model(&Models{Registry: workers.NewRegistry()}, Chat), last(200, nil))...)
	require.NoError(t, err)
	require.Equal(t, []any{"m1", false}, []any{x.Model, x.Served})
}

// A worker that names no model takes every one.
func TestModelMayBeServedByAWorkerThatTakesAny(t *testing.T) {
	registry := workers.NewRegistry(named(t, "http://127.0.0.1:1", "", workers.Regular))
	c := chat()
	x, err := c.through(t, append(bodyStages(Chat), Model(&Models{Registry: registry}, Chat), last(200, nil))...)
	require.NoError(t, err)
	require.Equal(t, []any{"m1", false}, []any{x.Model, x.Served})
}

// http-dataplane.md, section 3.4: the check, with an engine that shows what it got.
func TestAnAliasIsReplacedInTheBody(t *testing.T) {
	tests := []struct{ name, sent, got string }{
		{
			"nothing else changes",
			`{"model":"alias","x_custom":12345678901234567890,"temperature":0.95,"messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m1","x_custom":12345678901234567890,"temperature":0.95,"messages":[{"role":"user","content":"hi"}]}`,
		},
		{
			"wherever it stands",
			"{\"messages\":[{\"role\":\"user\",\"content\":\"alias\"}],\n\"model\" :  \"al\\u0069as\" }",
			"{\"messages\":[{\"role\":\"user\",\"content\":\"alias\"}],\n\"model\" :  \"m1\" }",
		},
		{"never inserted", `{"messages":[{"role":"user","content":"hi"}],"model":"m1"}`, `{"messages":[{"role":"user","content":"hi"}],"model":"m1"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, nil)
			r.registry.Alias("alias", "m1")
			require.Equal(t, 200, r.ask(post(chatPath, tt.sent)).status)
			require.Equal(t, tt.got, string(r.posts(0)[0].Body))
			require.Equal(t, 1, r.count(t, "router_requests_total{regular http chat m1 http false}"), "counted by the canonical id")
		})
	}
}

// http-dataplane.md, section 3.4: a request that names no model stays without one.
func TestNoModelIsInserted(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) { s.path, s.kind = "/generate", Generate })
	require.Equal(t, 200, r.ask(post("/generate", unnamed)).status)
	require.Equal(t, unnamed, string(r.posts(0)[0].Body))
	require.Equal(t, 1, r.count(t, "router_requests_total{regular http generate unknown http false}"))
}
