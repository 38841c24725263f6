package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quick is a model that answers within a few milliseconds.
func quick() *ModelConfig {
	return &ModelConfig{PrefillTPS: 1_000_000, ITL: time.Millisecond, BatchSlowdown: -1, KVTokens: 4096}
}

// text is a text of n tokens, different for each letter.
func text(letter string, tokens int) string {
	var b strings.Builder
	for i := range tokens {
		fmt.Fprintf(&b, "%s%03d", letter, i)
	}
	return b.String()
}

// Prefix reuse that is really computed from the prompt, and usage.prompt_tokens_details.cached_tokens.
func TestUsageTellsWhatWasCachedOfThePrompt(t *testing.T) {
	chat := func(content string) string {
		return `{"max_tokens":2,"messages":[{"role":"user","content":"` + content + `"}]}`
	}
	ids := `{"sampling_params":{"max_new_tokens":2},"input_ids":[` + strings.TrimSuffix(strings.Repeat("7,", 100), ",") + `]}`
	tests := []struct {
		name, path, first, second string
		prompt, cached            int
		in                        []string // where the figure stands
	}{
		{"the same chat but its last token", "/v1/chat/completions", chat(text("a", 64)), chat(text("a", 64)), 64, 63, []string{"usage", "prompt_tokens_details", "cached_tokens"}},
		{"whole pages of a longer chat", "/v1/chat/completions", chat(text("a", 40)), chat(text("a", 70)), 70, 32, []string{"usage", "prompt_tokens_details", "cached_tokens"}},
		{"another chat", "/v1/chat/completions", chat(text("a", 64)), chat(text("b", 64)), 64, 0, []string{"usage", "prompt_tokens_details", "cached_tokens"}},
		{"a text is itself however it is escaped", "/v1/completions", `{"max_tokens":2,"prompt":"` + text("a", 64) + `"}`, `{"max_tokens":2,"prompt":"\u0061` + text("a", 64)[1:] + `"}`, 64, 63, []string{"usage", "prompt_tokens_details", "cached_tokens"}},
		{"a chat in parts", "/v1/chat/completions", chat(text("a", 64)), `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"text","text":"` + text("a", 64) + `"}]}]}`, 64, 63, []string{"usage", "prompt_tokens_details", "cached_tokens"}},
		{"token ids are tokens", "/generate", ids, ids, 100, 96, []string{"meta_info", "cached_tokens"}},
		{"a message", "/v1/messages", chat(text("a", 64)), chat(text("a", 64)), 64, 63, []string{"usage", "cache_read_input_tokens"}},
		{"a response", "/v1/responses", `{"max_output_tokens":2,"input":"` + text("a", 64) + `"}`, `{"max_output_tokens":2,"input":"` + text("a", 64) + `"}`, 64, 63, []string{"usage", "input_tokens_details", "cached_tokens"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{Model: quick()})
			for k, body := range []string{tt.first, tt.second} {
				resp, got := post(t, e.URL+tt.path, body)
				require.Equal(t, 200, resp.StatusCode, got)
				want := 0
				if k == 1 {
					want = tt.cached
				}
				require.EqualValues(t, want, figure(t, decode(t, got), tt.in), got)
			}
			_, totals := e.load()
			require.EqualValues(t, tt.cached, totals.Cached)
			require.EqualValues(t, 4, totals.Generated)
		})
	}
}

func figure(t *testing.T, v map[string]any, path []string) any {
	t.Helper()
	for _, name := range path[:len(path)-1] {
		inside, ok := v[name].(map[string]any)
		require.True(t, ok, "no %s", name)
		v = inside
	}
	return v[path[len(path)-1]]
}

// A stream comes step by step, and its usage tells what was cached.
func TestAStreamOfTheModelIsWhole(t *testing.T) {
	e := Start(t, Config{Model: quick()})
	body := `{"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"messages":[{"role":"user","content":"` + text("a", 64) + `"}]}`
	post(t, e.URL+"/v1/chat/completions", body)
	_, got := post(t, e.URL+"/v1/chat/completions", body)
	require.Equal(t, 1+5+1+1+1, strings.Count(got, "data: "), got)
	require.Contains(t, got, `"cached_tokens":63`)
	require.True(t, strings.HasSuffix(got, "data: [DONE]\n\n"), got)
}

// A waiting queue, a running limit, and load reports that follow from them; a client that leaves frees its place.
func TestLoadReportsTellOfTheQueue(t *testing.T) {
	for _, kind := range []Kind{SGLang, VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			slow := ModelConfig{ITL: time.Hour, MaxRunning: 1, KVTokens: 4096}
			e := Start(t, Config{Engine: kind, Model: &slow})
			first, _ := dial(t, e)
			request := `{"stream":true,"max_tokens":5,"prompt":"` + text("a", 64) + `"}`
			raw := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
			send(t, first, raw)
			eventually(t, "the first runs", func() bool { l, _ := e.load(); return l.Running == 1 })
			second, _ := dial(t, e)
			send(t, second, strings.ReplaceAll(raw, "a0", "b0"))
			eventually(t, "the second waits", func() bool { l, _ := e.load(); return l.Waiting == 1 })
			requireLoad(t, e, kind, 1, 1, 64, 80)
			require.NoError(t, second.Close())
			eventually(t, "the second has left", func() bool { l, _ := e.load(); return l.Waiting == 0 })
			require.NoError(t, first.Close())
			eventually(t, "the first has left", func() bool { l, _ := e.load(); return l.Running == 0 && l.Used == 0 })
		})
	}
}

func requireLoad(t *testing.T, e *Running, kind Kind, running, waiting, tokens, used int) {
	t.Helper()
	if kind == VLLM {
		_, got := get(t, e.URL+"/metrics")
		for name, value := range map[string]int{"num_requests_running": running, "num_requests_waiting": waiting} {
			require.Contains(t, got, fmt.Sprintf("vllm:%s{engine=\"0\",model_name=\"m1\"} %d.0\n", name, value))
		}
		require.Contains(t, got, `vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="256",enable_prefix_caching="True"} 1.0`)
		return
	}
	_, got := get(t, e.URL+"/v1/loads")
	load := decode(t, got)["loads"].([]any)[0].(map[string]any)
	for name, value := range map[string]int{
		"num_running_reqs": running, "num_waiting_reqs": waiting, "num_total_reqs": running + waiting,
		"num_waiting_uncached_tokens": tokens, "num_used_tokens": used, "max_running_requests": 1, "max_total_num_tokens": 4096,
	} {
		require.EqualValues(t, value, load[name], name)
	}
	_, got = get(t, e.URL+"/metrics")
	require.Contains(t, got, fmt.Sprintf("sglang:num_queue_reqs{engine_type=\"unified\",model_name=\"m1\",pp_rank=\"0\",tp_rank=\"0\"} %d.0\n", waiting))
}

// Without a flag of the model an engine is what it was: nothing is cached, and fixed times count.
func TestWithoutAModelNothingIsCached(t *testing.T) {
	e := Start(t, Config{})
	for range 2 {
		_, got := post(t, e.URL+"/v1/chat/completions", hello)
		require.EqualValues(t, 0, figure(t, decode(t, got), []string{"usage", "prompt_tokens_details", "cached_tokens"}))
	}
}

// A fault that sets the times takes the request out of the model.
func TestAFaultWithTimesOfItsOwnGoesRoundTheModel(t *testing.T) {
	e := Start(t, Config{Model: &ModelConfig{ITL: time.Hour}})
	e.SetFaults(Fault{TTFTMillis: 1, ITLMillis: 1})
	resp, got := post(t, e.URL+"/v1/chat/completions", hello)
	require.Equal(t, 200, resp.StatusCode, got)
}

func TestFlushForgetsTheCache(t *testing.T) {
	e := Start(t, Config{Model: quick()})
	body := `{"max_tokens":1,"prompt":"` + text("a", 64) + `"}`
	post(t, e.URL+"/v1/completions", body)
	post(t, e.URL+"/flush_cache", "")
	_, got := post(t, e.URL+"/v1/completions", body)
	require.EqualValues(t, 0, figure(t, decode(t, got), []string{"usage", "prompt_tokens_details", "cached_tokens"}))
}

// The flag --seed: equal seeds draw equal faults.
func TestASeedRepeatsTheDrawsOfFaults(t *testing.T) {
	statuses := func(seed uint64) (all []int) {
		e := Start(t, Config{Seed: seed})
		e.SetFaults(Fault{Status: 503, Probability: 0.5})
		for range 40 {
			resp, _ := post(t, e.URL+"/v1/chat/completions", hello)
			all = append(all, resp.StatusCode)
		}
		return all
	}
	first := statuses(3)
	require.Contains(t, first, 200)
	require.Contains(t, first, 503)
	require.Equal(t, first, statuses(3))
	require.NotEqual(t, first, statuses(4))
}

// The tokens that a prompt is cut into are as many as the usage says, whatever is in it.
func FuzzTheTokensOfAPromptAreThoseOfItsMeasure(f *testing.F) {
	for _, seed := range []string{`"hello"`, `"h\u00e9\n\ud83d\ude00"`, `["a","bcdefgh"]`, `[1,2,3]`, `[[1],[2,3]]`, `""`, `null`, "\"\xff\"", `[{"a":1}]`, `"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var tk tokenizer
		tk.prompt(value)
		if !json.Valid(value) {
			return // it is enough that nothing breaks: bodies are checked before
		}
		require.Len(t, tk.tokens, measure(value).tokens)
		tk = tokenizer{}
		tk.chat(value, value)
		require.Len(t, tk.tokens, chatTokens(value, value))
		require.Len(t, PageDigests(nil, tk.tokens, 16), len(tk.tokens)/16)
	})
}
