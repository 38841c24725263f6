package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestPromptTokens(t *testing.T) {
	tests := []struct {
		name, field, value string
		tokens, batch      int
	}{
		{"four characters are a token", "prompt", `"abcdefgh"`, 2, 1},
		{"a rest is a token", "prompt", `"abcde"`, 2, 1},
		{"an escape is one character", "prompt", `"\n\u00e9\"\\"`, 1, 1},
		{"a character may be several bytes", "prompt", `"日本語文"`, 1, 1},
		{"a list of texts is a batch", "prompt", `["abcd","abcde"]`, 3, 2},
		{"token ids count themselves", "prompt", `[1,2,3]`, 3, 1},
		{"a list of token lists is a batch", "prompt", `[ [1,2] , [3] ]`, 3, 2},
		{"an empty list is one empty prompt", "prompt", `[]`, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a ask
			require.NoError(t, a.parse(fmt.Appendf(nil, `{"%s": %s }`, tt.field, tt.value)))
			require.Equal(t, size{tt.tokens, tt.batch}, measure(a.prompt))
		})
	}
}

func TestChatTokensCountTextAlone(t *testing.T) {
	tests := []struct {
		name, messages, beside string
		tokens                 int
	}{
		{"contents add up", `[{"role":"user","content":"abcd"},{"role":"assistant","content":"efgh"}]`, "", 2},
		{"parts with text add up", `[{"role":"user","content":[{"type":"text","text":"abcd"},{"type":"image_url","image_url":{"url":"x"}}]}]`, "", 1},
		{"null has no text", `[{"role":"assistant","content":null,"tool_calls":[]}]`, "", 0},
		{"instructions count", `[{"role":"user","content":"abcd"}]`, `"efgh"`, 2},
		{"instructions may be parts", `[{"role":"user","content":"abcd"}]`, `[{"type":"text","text":"efgh"}]`, 2},
		{"an input may be a string", `"abcd"`, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.tokens, chatTokens([]byte(tt.messages), []byte(tt.beside)))
		})
	}
}

// http-dataplane.md, section 3 and DECISIONS.md, row 6
func TestFieldsOfARequest(t *testing.T) {
	tests := []struct {
		name, body string
		check      func(a *ask) bool
	}{
		{"the last of two equal keys counts", `{"model":"a","model":"b"}`, func(a *ask) bool { return string(a.model) == "b" }},
		{"keys have case", `{"model":"a","Model":"b"}`, func(a *ask) bool { return string(a.model) == "a" }},
		{"null is as if absent", `{"stream":null,"messages":null,"max_tokens":null}`, func(a *ask) bool { return !a.stream && a.given == 0 && a.limit < 0 }},
		{"the least limit counts", `{"max_tokens":9,"max_completion_tokens":5}`, func(a *ask) bool { return a.limit == 5 }},
		{"a limit may be written as a float", `{"max_tokens":1E1}`, func(a *ask) bool { return a.limit == 10 }},
		{"sampling_params has the limit of /generate", `{"sampling_params":{"max_new_tokens":3}}`, func(a *ask) bool { return a.limit == 3 }},
		{"a string is no limit", `{"max_tokens":"3"}`, func(a *ask) bool { return a.limit < 0 }},
		{"usage is asked for in stream_options", `{"stream_options":{"include_usage":true}}`, func(a *ask) bool { return a.usage }},
		{"a byte order mark is skipped", "\xef\xbb\xbf" + `{"stream":true}`, func(a *ask) bool { return a.stream }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a ask
			require.NoError(t, a.parse([]byte(tt.body)))
			require.True(t, tt.check(&a), "%+v", a)
		})
	}
}

// FuzzAsk compares the top-level members with those that encoding/json finds.
func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"h\\\"i"}],"max_tokens":1e1,"n":2}`))
	f.Add([]byte(`{"input":[[1,2],["a"]],"a":{"b":[{}]},"":null}`))
	f.Add([]byte(`{"prompt":"\\\\","text":"\ud83d","query":"q","documents":["a"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var a ask
		if a.parse(body) != nil || !json.Valid(body) {
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(body, &want) != nil {
			return
		}
		got := map[string]string{}
		eachField(body, func(k, v []byte) {
			var key string
			require.NoError(t, json.Unmarshal(append(append([]byte{'"'}, k...), '"'), &key))
			got[key] = string(v)
		})
		require.Len(t, got, len(want))
		for k, v := range want {
			require.Equal(t, string(v), got[k])
			measure([]byte(got[k]))
			contentChars([]byte(got[k]))
		}
	})
}

func FuzzCharacters(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\n\u2028é日")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, utf8.RuneCountInString(s), characters(quoted))
	})
}

// FuzzWalk feeds what is no JSON: nothing may fail or run on.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		eachField(b, func(_, v []byte) { measure(v); contentChars(v); number(v) })
		eachElement(b, func(v []byte) { characters(v) })
	})
}
