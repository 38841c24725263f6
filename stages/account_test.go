package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// telemetry.md, section 4.2, the check: once for a request, however many attempts it takes.
func TestAccountCountsARequestOnce(t *testing.T) {
	r := newRig(t, 1, attempts(5))
	r.engines[0].SetFaults(engine.Fault{Status: 503, Count: 2})
	require.Equal(t, 200, r.ask(chat()).status)
	counts := r.counted(t)
	require.Equal(t, 1, counts["router_requests_total{regular http chat m1 http false}"])
	require.Equal(t, 2, counts["router_upstream_responses_total{ http 503}"])
	require.Equal(t, 1, counts["router_upstream_responses_total{ http 200}"])
	require.Equal(t, 2, counts["worker_retries_total{chat regular}"])
	require.Equal(t, 1, counts["router_request_duration_seconds{regular http chat m1 http}"])
	require.Zero(t, r.total(t, "router_request_errors_total"))

	r = newRig(t, 1, attempts(3))
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	require.Equal(t, 503, r.ask(chat()).status)
	counts = r.counted(t)
	require.Equal(t, 3, counts["router_upstream_responses_total{ http 503}"])
	require.Equal(t, 2, counts["worker_retries_total{chat regular}"])
	require.Equal(t, 1, counts["worker_retries_exhausted_total{chat regular}"])
	require.Equal(t, 1, counts["router_request_errors_total{regular http chat backend_error m1 http}"])
	require.Zero(t, r.total(t, "router_request_duration_seconds"))
}

// telemetry.md, section 4.2: "Body {"usage":{"prompt_tokens":14,"completion_tokens":8}} -> tokens input +14, output +8", wherever a
// usage object is visible.
func TestAccountCountsTheTokensThatTheWorkerReports(t *testing.T) {
	const last = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":14,\"total_tokens\":22,\"completion_tokens\":8}}\n\n"
	tests := []struct {
		name, body    string
		fault         engine.Fault
		input, output int
	}{
		{"OpenAI", small, engine.Fault{Body: `{"id":"x","usage":{"prompt_tokens":14,"completion_tokens":8}}`}, 14, 8},
		{"Anthropic", small, engine.Fault{Body: `{"usage":{"input_tokens":14,"output_tokens":8}}`}, 14, 8},
		{"SGLang", small, engine.Fault{Body: `{"text":"x","meta_info":{"prompt_tokens":14,"completion_tokens":8}}`}, 14, 8},
		{"no usage", small, engine.Fault{Body: `{"id":"x"}`}, 0, 0},
		{"usage null", small, engine.Fault{Body: `{"usage":null}`}, 0, 0},
		{"an error's are not counted", small, engine.Fault{Status: 400, Body: `{"usage":{"prompt_tokens":14}}`}, 0, 0},
		{"the last event of a stream", stream, engine.Fault{Chunks: []string{"data: {}\n\n", last, "data: [DONE]\n\n"}}, 14, 8},
		{"a stream without one", stream, engine.Fault{Chunks: []string{"data: {}\n\n", "data: [DONE]\n\n"}}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, nil)
			r.engines[0].SetFaults(tt.fault)
			require.NotZero(t, r.ask(post(chatPath, tt.body)).status)
			require.Equal(t, tt.input, r.count(t, "router_tokens_total{regular chat m1 http input}"))
			require.Equal(t, tt.output, r.count(t, "router_tokens_total{regular chat m1 http output}"))
		})
	}
}

// telemetry.md, section 4.2: "One output token -> no tpot sample, one ttft sample".
func TestAccountTimesStreams(t *testing.T) {
	usage := func(n string) string {
		return "data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":" + n + "}}\n\n"
	}
	tests := []struct {
		name                   string
		chunks                 []string
		ttft, tpot, generation int
	}{
		{"several tokens", []string{"data: {}\n\n", usage("21")}, 1, 1, 1},
		{"one token", []string{"data: {}\n\n", usage("1")}, 1, 0, 1},
		{"nobody says how many", []string{"data: {}\n\n"}, 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, nil)
			r.engines[0].SetFaults(engine.Fault{Chunks: tt.chunks})
			require.Equal(t, 200, r.ask(post(chatPath, stream)).status)
			require.Equal(t, tt.ttft, r.total(t, "router_ttft_seconds"))
			require.Equal(t, tt.tpot, r.total(t, "router_tpot_seconds"))
			require.Equal(t, tt.generation, r.total(t, "router_generation_duration_seconds"))
		})
	}
}

// telemetry.md, section 4.2: each kind of request under its own endpoint.
func TestAccountLabelsTheEndpoint(t *testing.T) {
	tests := []struct {
		path, endpoint, body string
		kind                 Kind
	}{
		{"/v1/completions", "completions", `{"model":"m1","prompt":"hi"}`, Completions},
		{"/generate", "generate", `{"model":"m1","text":"hi"}`, Generate},
		{"/v1/embeddings", "embeddings", `{"model":"m1","input":"hi"}`, Embeddings},
		{"/v1/classify", "classify", `{"model":"m1","input":"hi"}`, Classify},
		{"/v1/messages", "messages", `{"model":"m1","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`, Messages},
		{"/v1/responses", "responses", `{"model":"m1","input":"hi"}`, Responses},
		{"/v1/rerank", "rerank", `{"model":"m1","query":"q","documents":["a","b"]}`, V1Rerank},
		{"/rerank", "rerank", `{"model":"m1","query":"q","documents":["a","b"]}`, Rerank},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			r := newRig(t, 1, func(s *rigging) { s.path, s.kind = tt.path, tt.kind })
			require.Equal(t, 200, r.ask(post(tt.path, tt.body)).status)
			require.Equal(t, 1, r.count(t, "router_requests_total{regular http "+tt.endpoint+" m1 http false}"))
			require.Equal(t, 1, r.count(t, "http_responses_total{ "+tt.path+" 200}"))
		})
	}
}

// telemetry.md, section 5: attempts of a request, each request once, and what its client waited for the first event of a stream.
func TestAttemptsAndTheClientsWaitAreRecorded(t *testing.T) {
	const ok, failed, waited = "router_attempts{chat ok}", "router_attempts{chat failed}", "client_ttft_seconds{chat m1}"
	r := newRig(t, 2, nil)
	require.Equal(t, 200, r.ask(chat()).status)
	require.Equal(t, []int{1, 0, 0}, []int{r.count(t, ok), r.count(t, failed), r.count(t, waited)}, "no stream, no first event")
	require.Equal(t, 200, r.ask(post(chatPath, stream)).status)
	require.Equal(t, []int{2, 0, 1}, []int{r.count(t, ok), r.count(t, failed), r.count(t, waited)})
	for _, e := range r.engines {
		e.SetFaults(engine.Fault{Status: 503})
	}
	require.Equal(t, 503, r.ask(chat()).status)
	require.Equal(t, []int{2, 1, 1}, []int{r.count(t, ok), r.count(t, failed), r.count(t, waited)}, "five attempts are one request")
	require.Equal(t, 404, r.ask(post(chatPath, `{"model":"m9","messages":[{"role":"user","content":"hi"}]}`)).status)
	require.Equal(t, 1, r.count(t, failed), "nobody was tried")
}
