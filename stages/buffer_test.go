package stages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, section 4: the first rule that applies decides, before a byte of the body is read.
func TestBufferDecidesByTheFirstRuleThatApplies(t *testing.T) {
	const limit = 1 << 20
	text := func(r *rig) { r.demand.Raise(pipeline.WantText) }
	twoModels := func(r *rig) { _ = r.registry.Add(named(t, "http://127.0.0.1:9", "m2", workers.Regular)) }
	aliased := func(r *rig) { r.registry.Alias("alias", "m1") }
	asking := func(own workers.ResilienceSpec) func(*rig) {
		return func(r *rig) {
			spec := workers.NewSpec("http://127.0.0.1:9")
			spec.Labels, spec.Resilience = map[string]string{"model_id": "m1"}, &own
			w, err := workers.New(spec, workers.DefaultSettings())
			require.NoError(t, err)
			require.NoError(t, r.registry.Add(w))
		}
	}
	hint := []string{"X-Smg-Routing-Tokens", "1,2,3"}
	tests := []struct {
		name    string
		with    func(*rigging)
		state   func(*rig)
		length  int64
		headers []string
		want    string // path and reason
	}{
		{"as long as what is kept for retries", nil, nil, limit, nil, "buffered retryable"},
		{"a byte longer", nil, nil, limit + 1, nil, "streamed retry_forfeited"},
		{"retries off", unretried, nil, 10, nil, "streamed pure_forward"},
		{"retries off, no body", unretried, nil, 0, nil, "streamed pure_forward"},
		{"a policy that reads prompts", unretried, text, 10, nil, "buffered policy_needs_text"},
		{"a policy that reads prompts, and a hint", unretried, text, 10, hint, "streamed pure_forward"},
		{"a policy that reads prompts, and a hint that is none", unretried, text, 10, []string{"X-Smg-Routing-Tokens", "1, 2"}, "buffered policy_needs_text"},
		{"two models", unretried, twoModels, 10, nil, "buffered model_ambiguous"},
		{"a second name of the model, which has to be replaced", unretried, aliased, 10, nil, "buffered worker_mutates_body"},
		{"no declared length", unretried, nil, -1, nil, "buffered no_content_length"},
		{"no declared length, retries on", nil, nil, -1, nil, "buffered no_content_length"},
		{"nobody to send it to", unretried, func(r *rig) { put(t, r.workers[0], "unhealthy") }, 10, nil, "buffered no_available_worker"},
		{"nobody to send it to, and larger than what is kept", nil, func(r *rig) { put(t, r.workers[0], "overloaded") }, limit + 1, nil, "buffered no_available_worker"},
		{"models are told apart by the body always", func(s *rigging) { s.buffering.ManyModels = true }, nil, 10, nil, "buffered model_selection"},
		{"sticky sessions", func(s *rigging) { unretried(s); s.buffering.Sticky = true }, nil, 10, nil, "buffered routing_key_override"},
		{"sticky sessions come before everything that a hint lifts", func(s *rigging) { s.buffering.Sticky = true }, text, 10, hint, "buffered routing_key_override"},
		{"a policy that takes the text of bodies that are read", unretried, func(r *rig) { r.demand.Raise(pipeline.WantTextIfRead) }, 10, nil, "streamed pure_forward"},
		{"a policy comes before the number of models", nil, func(r *rig) { text(r); twoModels(r) }, 10, nil, "buffered policy_needs_text"},
		{"the number of models comes before the length", nil, twoModels, -1, nil, "buffered model_ambiguous"},
		{"retries off, but not for the model", unretried, asking(workers.ResilienceSpec{MaxRetries: new(uint32(2))}), limit, nil, "buffered retryable"},
		{"retries off, but not for the model, and a byte longer", unretried, asking(workers.ResilienceSpec{MaxRetries: new(uint32(2))}), limit + 1, nil, "streamed retry_forfeited"},
		{"retries off, and one attempt for the model", unretried, asking(workers.ResilienceSpec{MaxRetries: new(uint32(1))}), 10, nil, "streamed pure_forward"},
		{"retries off, for the model as well", unretried, asking(workers.ResilienceSpec{MaxRetries: new(uint32(2)), DisableRetry: new(true)}), 10, nil, "streamed pure_forward"},
		{"retries off, and other pauses for the model", unretried, asking(workers.ResilienceSpec{InitialBackoffMs: new(uint32(2))}), 10, nil, "streamed pure_forward"},
		{"nothing is kept for retries alone", func(s *rigging) { s.buffering.RetriedBytes = 0 }, nil, 10, nil, "streamed retry_forfeited"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, tt.with)
			if tt.state != nil {
				tt.state(r)
			}
			b := r.settings.buffering
			b.Registry, b.Demand, b.Metrics = r.registry, r.demand, r.metrics
			c := chat(tt.headers...)
			c.length = tt.length
			x, err := c.through(t, Buffer(&b, Chat), last(200, nil))
			require.NoError(t, err)
			require.Zero(t, c.reads)
			require.Equal(t, map[string]int{"router_request_body_path_total{" + tt.want + "}": 1}, r.family(t, "router_request_body_path_total"))
			require.Equal(t, tt.want[:8] == "streamed", x.Body.Streamed)
		})
	}
}

// http-dataplane.md, section 2.1 and 4: only six routes stream; the others are not counted.
func TestBufferLeavesRoutesAloneThatNeverStream(t *testing.T) {
	r := newRig(t, 1, unretried)
	b := r.settings.buffering
	b.Registry, b.Demand, b.Metrics = r.registry, r.demand, r.metrics
	var streamed []Kind
	for kind := range kindCount {
		c := chat()
		x, err := c.through(t, Buffer(&b, kind), last(200, nil))
		require.NoError(t, err)
		if x.Body.Streamed {
			streamed = append(streamed, kind)
		}
	}
	require.ElementsMatch(t, []Kind{Chat, Completions, Generate, Embeddings, Classify, Messages}, streamed)
	require.Equal(t, len(streamed), r.total(t, "router_request_body_path_total"))
}

// http-dataplane.md, section 4: "worker sees Transfer-Encoding: chunked, byte-identical body"; no validation, no second attempt.
// One that was read ahead to its end has a length, so that it can be sent again (section 8, cases.md C39).
func TestAStreamedBodyGoesToTheWorkerAsItIs(t *testing.T) {
	const odd = "{\"model\" : \"m1\",\n\t\"messages\":\"not what is asked for\", \"n\":1.50, \"n\":1e0}"
	padded := func(size int) string { return odd + strings.Repeat(" ", size-len(odd)) }
	tests := []struct {
		name, body string
		chunked    bool
	}{
		{"a short one", odd, false},
		{"the longest that is read ahead", padded(readAhead), false},
		{"one that is longer", padded(readAhead + 1), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, unretried)
			c := r.ask(post(chatPath, tt.body))
			require.NotEmpty(t, c.head.Get("X-Smg-Routed-Worker-Id"), "the worker has answered, whatever it says")
			require.Len(t, r.posts(0), 1)
			got := r.posts(0)[0]
			require.Equal(t, tt.body, string(got.Body))
			require.Equal(t, tt.chunked, len(got.Values("Transfer-Encoding")) == 1)
			require.Equal(t, !tt.chunked, len(got.Values("Content-Length")) == 1)
			require.Equal(t, []string{"application/json"}, got.Values("Content-Type"))
		})
	}
}

// DECISIONS 40: content type, and a model that the first bytes name and nobody serves.
func TestAStreamedBodyIsLookedAtAsFarAsItHasCome(t *testing.T) {
	tests := []struct {
		name, body, contentType string
		code                    string // empty: the worker has been asked
	}{
		{"a model that is served", small, "application/json", ""},
		{"a model that is not", `{"model":"m2","messages":[]}`, "application/json", "model_not_found"},
		{"no model", `{"messages":[]}`, "application/json", ""},
		{"any model", `{"model":"unknown"}`, "application/json", ""},
		{"no JSON at all", `model=m2`, "application/json", ""},
		{"another type", small, "text/plain", "json_parse_error"},
		{"no type", small, "", "json_parse_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, unretried)
			c := r.ask(post(chatPath, tt.body, "Content-Type", tt.contentType))
			require.Equal(t, tt.code, c.code())
			require.Equal(t, tt.code == "", len(r.posts(0)) == 1)
		})
	}
}
