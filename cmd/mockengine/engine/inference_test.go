package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 2.1; engines/captures/vllm-bodies.json
func TestEveryInferenceRouteAnswersWithTheEnginesName(t *testing.T) {
	tests := []struct{ path, body, id string }{
		{"/v1/chat/completions", hello, "id"},
		{"/v1/completions", `{"prompt":"hello"}`, "id"},
		{"/generate", `{"text":"hello"}`, "meta_info"},
		{"/v1/embeddings", `{"input":"hello"}`, "id"},
		{"/v1/classify", `{"input":"hello"}`, "id"},
		{"/v1/messages", `{"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`, "id"},
		{"/v1/responses", `{"input":"hello"}`, "id"},
	}
	for _, kind := range []Kind{SGLang, VLLM} {
		for _, tt := range tests {
			t.Run(string(kind)+tt.path, func(t *testing.T) {
				e := Start(t, Config{Engine: kind, Name: "W1"})
				resp, body := post(t, e.URL+tt.path, tt.body)
				require.Equal(t, 200, resp.StatusCode, body)
				require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				v := decode(t, body)
				if tt.id == "meta_info" {
					v = v["meta_info"].(map[string]any)
				}
				require.Equal(t, "W1-1", v["id"])
			})
		}
	}
}

func TestRepliesAreAsLongAsAsked(t *testing.T) {
	tests := []struct {
		name, path, body string
		tokens           int
		finish           string
	}{
		{"the engine's own length", "/v1/chat/completions", hello, 16, "stop"},
		{"max_tokens lowers it", "/v1/chat/completions", `{"messages":[],"max_tokens":3}`, 3, "length"},
		{"max_completion_tokens lowers it", "/v1/chat/completions", `{"messages":[],"max_completion_tokens":3}`, 3, "length"},
		{"a high limit changes nothing", "/v1/chat/completions", `{"messages":[],"max_tokens":300}`, 16, "stop"},
		{"n replies are n times the tokens", "/v1/chat/completions", `{"messages":[],"max_tokens":3,"n":2}`, 6, "length"},
		{"a batch has a reply for each prompt", "/v1/completions", `{"prompt":["a","b"],"max_tokens":3}`, 6, "length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{})
			_, body := post(t, e.URL+tt.path, tt.body)
			v := decode(t, body)
			require.EqualValues(t, tt.tokens, v["usage"].(map[string]any)["completion_tokens"])
			choice := v["choices"].([]any)[0].(map[string]any)
			require.Equal(t, tt.finish, choice["finish_reason"])
			require.EqualValues(t, tt.tokens, e.State().Tokens)
		})
	}
}

func TestTheReplyHasOneWordForEachToken(t *testing.T) {
	r := newReply(100)
	var all strings.Builder
	for k := range 100 {
		all.WriteString(r.token(k))
		require.Len(t, strings.Fields(r.first(k+1)), k+1)
	}
	require.Equal(t, r.all, all.String())
	require.Empty(t, r.first(0))
}

func TestLimitsOfOtherRoutes(t *testing.T) {
	e := Start(t, Config{})
	_, body := post(t, e.URL+"/v1/responses", `{"input":"hello","max_output_tokens":2}`)
	v := decode(t, body)
	require.Equal(t, "incomplete", v["status"])
	require.EqualValues(t, 2, v["usage"].(map[string]any)["output_tokens"])

	_, body = post(t, e.URL+"/v1/messages", `{"messages":[],"max_tokens":2}`)
	v = decode(t, body)
	require.Equal(t, "max_tokens", v["stop_reason"])
	require.EqualValues(t, 2, v["usage"].(map[string]any)["output_tokens"])

	_, body = post(t, e.URL+"/generate", `{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":2},"return_logprob":true}`)
	meta := decode(t, body)["meta_info"].(map[string]any)
	require.EqualValues(t, 3, meta["prompt_tokens"])
	require.EqualValues(t, 2, meta["completion_tokens"])
	require.Len(t, meta["input_token_logprobs"], 3)
	require.Len(t, meta["output_token_logprobs"], 2)
}

func TestGenerateAnswersABatchWithAList(t *testing.T) {
	e := Start(t, Config{})
	for body, n := range map[string]int{`{"text":["a","b"]}`: 2, `{"input_ids":[[1],[2],[3]]}`: 3, `{"text":["a"]}`: 1} {
		_, got := post(t, e.URL+"/generate", body)
		var list []map[string]any
		require.NoError(t, json.Unmarshal([]byte(got), &list), got)
		require.Len(t, list, n)
	}
}

// http-dataplane.md, section 2.4
func TestRerankAnswersAnArray(t *testing.T) {
	e := Start(t, Config{})
	for body, document := range map[string]any{
		`{"query":"q","documents":["a","b"]}`:                          "a",
		`{"query":"q","documents":["a","b"],"return_documents":false}`: nil,
	} {
		_, got := post(t, e.URL+"/v1/rerank", body)
		var list []map[string]any
		require.NoError(t, json.Unmarshal([]byte(got), &list), got)
		require.Len(t, list, 2)
		require.Equal(t, document, list[0]["document"])
		require.EqualValues(t, 1, list[1]["index"])
		require.Greater(t, list[0]["score"], list[1]["score"])
	}
}

func TestEmbeddings(t *testing.T) {
	e := Start(t, Config{})
	vectors := func(body string) []any {
		_, got := post(t, e.URL+"/v1/embeddings", body)
		var all []any
		for _, d := range decode(t, got)["data"].([]any) {
			all = append(all, d.(map[string]any)["embedding"])
		}
		return all
	}
	v := vectors(`{"input":["a","b","a"],"dimensions":3}`)
	require.Len(t, v, 3)
	require.Len(t, v[0], 3)
	require.Equal(t, v[0], v[2], "equal inputs have equal vectors")
	require.NotEqual(t, v[0], v[1])
	require.Len(t, vectors(`{"input":[[1,2],[3]]}`), 2, "a list of token lists is a batch")
	require.Len(t, vectors(`{"input":[1,2]}`), 1, "a list of tokens is not")

	raw, err := base64.StdEncoding.DecodeString(vectors(`{"input":"a","dimensions":3,"encoding_format":"base64"}`)[0].(string))
	require.NoError(t, err)
	for i, f := range v[0].([]any) {
		require.InDelta(t, f, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])), 1e-6)
	}
}

// pd.md, section 6; engines/captures/vllm-pd-nixl.json
func TestAPrefillLegIsAnsweredWithTransferParameters(t *testing.T) {
	e := Start(t, Config{Engine: VLLM, Name: "P1"})
	for path, field := range map[string]string{"/v1/chat/completions": "messages", "/v1/completions": "prompt", "/v1/responses": "input"} {
		_, body := post(t, e.URL+path, fmt.Sprintf(`{"%s":"x","max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}}`, field))
		params, _ := decode(t, body)["kv_transfer_params"].(map[string]any)
		require.Equal(t, true, params["do_remote_prefill"], body)
		require.Equal(t, "P1", params["remote_engine_id"])
		_, body = post(t, e.URL+path, fmt.Sprintf(`{"%s":"x","kv_transfer_params":{"do_remote_decode":false}}`, field))
		require.NotContains(t, body, "kv_transfer_params")
	}
}

// engines/captures/vllm-errors.json
func TestWhatAnEngineRefuses(t *testing.T) {
	tests := []struct {
		name       string
		kind       Kind
		path, body string
		status     int
		param      any
	}{
		{"bad JSON", VLLM, "/v1/chat/completions", `{"messages":[],}`, 400, "body"},
		{"an empty body", VLLM, "/v1/chat/completions", ``, 400, "body"},
		{"a body that is no object", VLLM, "/v1/chat/completions", `[]`, 400, "body"},
		{"no messages", VLLM, "/v1/chat/completions", `{"model":"m1"}`, 400, "body.messages"},
		{"a limit of 0", VLLM, "/v1/chat/completions", `{"messages":[],"max_tokens":0}`, 400, "max_tokens"},
		{"messages without a limit", VLLM, "/v1/messages", `{"messages":[]}`, 400, "body.max_tokens"},
		{"an unknown model", VLLM, "/v1/chat/completions", `{"model":"nope","messages":[]}`, 404, "model"},
		{"bad JSON", SGLang, "/v1/chat/completions", `{`, 400, "body"},
		{"no documents", SGLang, "/v1/rerank", `{"query":"q"}`, 400, "body.documents"},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind)+" "+tt.name, func(t *testing.T) {
			e := Start(t, Config{Engine: tt.kind})
			resp, body := post(t, e.URL+tt.path, tt.body)
			require.Equal(t, tt.status, resp.StatusCode, body)
			v := decode(t, body)
			if tt.kind == VLLM {
				v = v["error"].(map[string]any)
			}
			require.Equal(t, tt.param, v["param"])
			require.NotEmpty(t, v["message"])
			require.EqualValues(t, tt.status, v["code"])
		})
	}
}

func TestModelsOfARequest(t *testing.T) {
	sglang, vllm := Start(t, Config{Models: []string{"a\"b", "c"}}), Start(t, Config{Engine: VLLM, Models: []string{"a\"b", "c"}})
	tests := []struct {
		name, url, model string
		status           int
		answers          string
	}{
		{"none is the first", vllm.URL, ``, 200, "a\"b"},
		{"the second is served too", vllm.URL, `"model":"c",`, 200, "c"},
		{"vLLM serves no other", vllm.URL, `"model":"d",`, 404, ""},
		{"SGLang serves whatever is asked for", sglang.URL, `"model":"d\n",`, 200, "d\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := post(t, tt.url+"/v1/chat/completions", "{"+tt.model+`"messages":[]}`)
			require.Equal(t, tt.status, resp.StatusCode)
			if tt.status == 200 {
				require.Equal(t, tt.answers, decode(t, body)["model"])
			}
		})
	}
	_, body := post(t, vllm.URL+"/v1/messages", `{"model":"d","messages":[],"max_tokens":1}`)
	require.Equal(t, "error", decode(t, body)["type"], "on /v1/messages it is Anthropic's shape")
}
