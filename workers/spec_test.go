package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workers.md section 2
func TestSpecHasDefaults(t *testing.T) {
	s, err := ParseSpec([]byte(`{"url":"http://w:1","unknown":{"x":1},"labels":null,"models":null,"health":{}}`))
	require.NoError(t, err)
	require.Equal(t, NewSpec("http://w:1"), s)
	require.Equal(t, Spec{URL: "http://w:1", Priority: 50, Cost: 1, MaxConnectionAttempts: 20}, s)
}

// workers.md section 2
func TestSpecIsReadWhole(t *testing.T) {
	s, err := ParseSpec([]byte(`{"url":"http://w:1","worker_type":"prefill","connection_mode":"grpc","runtime":"vllm","provider":"openai",
		"labels":{"a":"b"},"priority":0,"cost":0.5,"api_key":"k","bootstrap_port":8998,"kv_connector":"NixlConnector","kv_role":"kv_producer",
		"kv_engine_id":"e","kv_block_size":16,"health":{"timeout_secs":7,"disable_health_check":true,"drain_settle_secs":0},
		"http_pool":{"http2":true,"pool_max_idle_per_host":3,"pool_idle_timeout_secs":0,"timeout_secs":9,"connect_timeout_secs":1},
		"resilience":{"cb_failure_threshold":4,"cb_success_threshold":5,"cb_timeout_secs":6,"retryable_status_codes":[503],"capacity_status_codes":[]},
		"overload":{"waiting_requests":8,"token_usage":0.9},"load_monitor_interval_secs":3,"max_connection_attempts":1,
		"models":[{"id":"m","aliases":["a"],"model_type":["chat","vision"],"context_length":10,"metadata":{"x":[1]},"id2label":{"0":"no"}}]}`))
	require.NoError(t, err)
	require.Equal(t, "http://w:1 (prefill, vllm, api_key ***)", s.String())
	require.Equal(t, Card{
		ID: "m", Aliases: []string{"a"}, ModelType: Chat | Vision, ContextLength: 10, Metadata: json.RawMessage(`{"x":[1]}`), ID2Label: map[int]string{0: "no"},
	}, s.Models[0])
	require.Equal(t, uint32(16), *s.KVBlockSize)

	want := DefaultSettings()
	want.Health.Timeout, want.Health.Disabled, want.DrainSettle = 7*time.Second, true, 0
	want.HTTPPool = HTTPPoolSettings{HTTP2: true, MaxIdle: 3, RequestTimeout: 9 * time.Second, ConnectTimeout: time.Second}
	want.Breaker = BreakerSettings{FailureThreshold: 4, SuccessThreshold: 5, Timeout: 6 * time.Second}
	want.Statuses = StatusSettings{Retryable: []int{503}, Capacity: []int{}}
	want.Overload = OverloadSettings{WaitingRequests: 8, TokenUsage: 0.9}
	require.Equal(t, want, *made(t, s).Settings())
}

// workers.md section 2, DECISIONS 28 and 29
func TestSpecIsRefusedWithASentence(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"no JSON", `{"url":`, "Request body is not valid JSON"},
		{"no object", `[1]`, "Request body must be a JSON object"},
		{"null", `null`, "Request body must be a JSON object"},
		{"no url", `{}`, "Invalid value for field 'url': it is required"},
		{"a url in another case is another field", `{"URL":"http://w:1"}`, "Invalid value for field 'url': it is required"},
		{"a url that is no string", `{"url":1}`, "Invalid value for field 'url': expected a string"},
		{"a url without a scheme", `{"url":"w:1"}`, "Invalid value for field 'worker_url': w:1 - URL must start with a lowercase http://, https://, grpc://, grpcs://, or ipc:// scheme"},
		{"a type that does not exist", `{"url":"http://w:1","worker_type":"prefil"}`, "Invalid value for field 'worker_type': 'prefil' is not one of regular, prefill, decode, encode"},
		{"a runtime in capitals", `{"url":"http://w:1","runtime_type":"SGLang"}`, "Invalid value for field 'runtime_type': 'SGLang' is not one of unspecified, sglang, vllm, trtllm, mlx, tokenspeed, generic, external"},
		{"a priority below 0", `{"url":"http://w:1","priority":-1}`, "Invalid value for field 'priority': expected a whole number from 0 to 4294967295"},
		{"a priority that is a text", `{"url":"http://w:1","priority":"1"}`, "Invalid value for field 'priority': expected a whole number from 0 to 4294967295"},
		{"a cost too large", `{"url":"http://w:1","cost":1e400}`, "Invalid value for field 'cost': expected a number"},
		{"a port too large", `{"url":"http://w:1","bootstrap_port":65536}`, "Invalid value for field 'bootstrap_port': expected a whole number from 0 to 65535"},
		{"a label that is a number", `{"url":"http://w:1","labels":{"a":1}}`, "Invalid value for field 'labels': expected an object of strings"},
		{"a label that is null", `{"url":"http://w:1","labels":{"a":null}}`, "Invalid value for field 'labels': expected an object of strings"},
		{"a threshold of 0", `{"url":"http://w:1","health":{"failure_threshold":0}}`, "Invalid value for field 'health.failure_threshold': expected a whole number from 1 to 4294967295"},
		{"a time limit of 0", `{"url":"http://w:1","health":{"timeout_secs":0}}`, "Invalid value for field 'health.timeout_secs': expected a whole number from 1 to 4294967295"},
		{"health that is a list", `{"url":"http://w:1","health":[]}`, "Invalid value for field 'health': expected an object"},
		{"a status that is none", `{"url":"http://w:1","resilience":{"capacity_status_codes":[42]}}`, "Invalid value for field 'resilience.capacity_status_codes': expected a list of status codes from 400 to 599"},
		{"a card without an id", `{"url":"http://w:1","models":[{"id":"a"},{}]}`, "Invalid value for field 'models[1].id': it is required and must not be empty"},
		{"a card that is a text", `{"url":"http://w:1","models":["m"]}`, "Invalid value for field 'models[0]': expected an object"},
		{"a capability that does not exist", `{"url":"http://w:1","models":[{"id":"m","model_type":["chatt"]}]}`, "Invalid value for field 'models[0].model_type': 'chatt' is not one of chat, completions, responses, embeddings, rerank, generate, vision, tools, reasoning, image_gen, audio, moderation"},
		{"capabilities beyond the last", `{"url":"http://w:1","models":[{"id":"m","model_type":4096}]}`, "Invalid value for field 'models[0].model_type': expected a whole number from 0 to 4095"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSpec([]byte(tt.body))
			require.EqualError(t, err, tt.want)
		})
	}
}

// workers.md section 2: out of range fails the registration, not the POST.
func TestOverloadOutOfRangeIsFoundWhenTheWorkerIsMade(t *testing.T) {
	for block, want := range map[string]string{
		`{"waiting_requests":0}`: "Invalid value for field 'overload.waiting_requests': expected at least 1, not 0",
		`{"token_usage":0}`:      "Invalid value for field 'overload.token_usage': expected more than 0 and at most 1, not 0",
		`{"token_usage":1.5}`:    "Invalid value for field 'overload.token_usage': expected more than 0 and at most 1, not 1.5",
	} {
		s, err := ParseSpec([]byte(`{"url":"http://w:1","overload":` + block + `}`))
		require.NoError(t, err)
		_, err = New(s, DefaultSettings())
		require.EqualError(t, err, want)
	}
}

// load-signals.md section 6.1: per signal, the block if present, else the gateway.
func TestOverloadBlockLeavesTheOtherCeilingToTheGateway(t *testing.T) {
	s, err := ParseSpec([]byte(`{"url":"http://w:1","overload":{"token_usage":0.5}}`))
	require.NoError(t, err)
	g := DefaultSettings()
	g.Overload.WaitingRequests = 16
	require.Equal(t, OverloadSettings{WaitingRequests: 16, TokenUsage: 0.5}, s.override(g).Overload)
}

// workers.md sections 2 and 9
func TestBreakerOverrides(t *testing.T) {
	off := DefaultSettings()
	off.Breaker.Disabled = true
	override := func(block string, g Settings) BreakerSettings {
		s, err := ParseSpec([]byte(`{"url":"http://w:1","resilience":` + block + `}`))
		require.NoError(t, err)
		return s.override(g).Breaker
	}
	require.True(t, override(`{}`, off).Disabled, "the gateway's switch holds for a worker that says nothing")
	require.False(t, override(`{"cb_failure_threshold":2}`, off).Disabled, "a worker's own threshold holds although breakers are off")
	require.True(t, override(`{"cb_failure_threshold":2,"disable_circuit_breaker":true}`, off).Disabled, "the worker's own switch wins")
}

// workers.md section 9, DECISIONS 3 and 47
func TestOutcomeOfAStatus(t *testing.T) {
	tests := []struct {
		name, block string
		want        map[int]Outcome
	}{
		{"by default", `{}`, map[int]Outcome{200: Succeeded, 302: Succeeded, 400: Succeeded, 404: Succeeded, 408: Faulted, 422: Succeeded, 429: Uncounted, 500: Faulted, 501: Succeeded, 502: Faulted, 503: Faulted, 504: Faulted, 529: Succeeded}},
		{"a list of capacity codes replaces the default", `{"capacity_status_codes":[503]}`, map[int]Outcome{503: Uncounted, 429: Faulted}},
		{"capacity wins over retryable", `{"capacity_status_codes":[429,503]}`, map[int]Outcome{503: Uncounted, 429: Uncounted, 500: Faulted}},
		{"an empty list holds nothing", `{"retryable_status_codes":[],"capacity_status_codes":[]}`, map[int]Outcome{429: Succeeded, 500: Succeeded}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSpec([]byte(`{"url":"http://w:1","resilience":` + tt.block + `}`))
			require.NoError(t, err)
			w := made(t, s)
			for status, want := range tt.want {
				require.Equal(t, want, w.Outcome(status), "status %d", status)
			}
		})
	}
}

// workers.md section 25, mistake 12
func TestAPIKeyIsNeverShown(t *testing.T) {
	s, err := ParseSpec([]byte(`{"url":"http://w:1","api_key":"sk-hidden"}`))
	require.NoError(t, err)
	require.Equal(t, "sk-hidden", s.APIKey)
	w := made(t, s)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(h).Info("x", "spec", s, "pointer", &s, "worker", w, "view", w.View())
	}
	js, err := json.Marshal([]any{s, w.View(), w})
	require.NoError(t, err)
	shown := log.String() + string(js) + fmt.Sprintf("%v %+v %#v %s %v %+v %#v %+v", s, s, s, &s, w, w, w, w.View())
	require.Contains(t, shown, "http://w:1")
	require.NotContains(t, shown, "sk-hidden")
}

// workers.md section 1
func TestRuntimeNames(t *testing.T) {
	for text, want := range map[string]Runtime{"SGLang": SGLang, "tensorrt-llm": TRTLLM, "TRTLLM": TRTLLM, "vllm": VLLM} {
		got, ok := ParseRuntime(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	_, ok := ParseRuntime("other")
	require.False(t, ok)
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{
		`{"url":"http://w:1"}`, `{"url":"http://w:1","models":[{"id":"m","model_type":3,"id2label":{"1":"x"}}],"overload":{"token_usage":0.9}}`,
		`{"url":null}`, `[]`, `{"url":"http://w:1","labels":{"kv_role":"x"},"health":{"timeout_secs":1}}`, "{\"url\":\"http://w\xff:1\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ParseSpec(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		w, err := New(s, DefaultSettings())
		if err != nil {
			return
		}
		shown, err := json.Marshal(w.View())
		require.NoError(t, err)
		_, err = ParseSpec(shown)
		require.NoError(t, err, "what is shown can be posted again")
	})
}
