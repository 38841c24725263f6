package stages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 3.5; cache-aware.md, section 1; cases.md C23, C24
func TestPromptIsWhatTheEngineWillRead(t *testing.T) {
	const none = ""
	tests := []struct {
		name   string
		kind   Kind
		body   string
		text   string
		tokens []uint32
	}{
		{
			"chat: all roles in order, text parts, an assistant's reasoning behind its content", Chat, `{"messages":[
			{"role":"system","content":"You are helpful."},{"role":"user","content":"Hi"},
			{"role":"assistant","reasoning_content":"think","content":"Hello"},
			{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"b"}]}]}`,
			"You are helpful. Hi Hello think a b", nil,
		},
		{
			"chat: empty pieces add no space", Chat, `{"messages":[{"role":"user","content":""},{"role":"user","content":"x"},{"role":"user","content":[]}]}`,
			"x", nil,
		},
		{"chat: developer, tool and function messages", Chat, `{"messages":[{"role":"developer","content":"d"},
			{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"text\":1}"}}]},{"role":"assistant"},
			{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"t"}]},{"role":"function","name":"f","content":"g"}]}`, "d t g", nil},
		{"chat: reasoning of others is not rendered", Chat, `{"messages":[{"role":"user","content":"a","reasoning_content":"no"}]}`, "a", nil},
		{"chat: reasoning without content", Chat, `{"messages":[{"reasoning_content":"r","content":null,"role":"assistant"}]}`, "r", nil},
		{"chat: a refusal is no text", Chat, `{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}`, none, nil},
		{"chat: an image alone", Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"u"}]}]}`, none, nil},
		{"chat: the last content of a message counts", Chat, `{"messages":[{"role":"user","content":"a","content":["b"]}]}`, "b", nil},
		{"chat: escapes are decoded", Chat, `{"messages":[{"role":"user","content":"a\n\u00e9\ud83d\ude00\ud83d"}]}`, "a\né😀\ufffd", nil},
		{"chat: messages that are none", Chat, `{"messages":["a",7,null]}`, none, nil},
		{"chat: text elsewhere is not the prompt", Chat, `{"text":"no","prompt":"no","input":"no"}`, none, nil},

		{"completions: a string", Completions, `{"prompt":"a"}`, "a", nil},
		{"completions: an array of strings", Completions, `{"prompt":["a","","b"]}`, "a b", nil},
		{"completions: ids are tokens", Completions, `{"prompt":[1,2,3]}`, none, []uint32{1, 2, 3}},
		{"completions: the first of a batch of ids", Completions, `{"prompt":[ [1 , 2],[3]]}`, none, []uint32{1, 2}},
		{"completions: an empty array", Completions, `{"prompt":[]}`, none, nil},
		{"completions: an empty batch", Completions, `{"prompt":[[]]}`, none, nil},

		{"generate: text", Generate, `{"text":"hello"}`, "hello", nil},
		{"generate: a text array", Generate, `{"text":["a","b"]}`, "a b", nil},
		{"generate: ids beside text", Generate, `{"text":"hello","input_ids":[1,2,3]}`, "hello", []uint32{1, 2, 3}},
		{"generate: a batch of ids", Generate, `{"input_ids":[[4,5],[6]]}`, none, []uint32{4, 5}},
		{"generate: no ids", Generate, `{"text":"hello","input_ids":[]}`, "hello", nil},
		{"generate: a batch whose first sequence is empty", Generate, `{"input_ids":[[],[1]]}`, none, nil},
		{"generate: the largest id", Generate, `{"input_ids":[0,4294967295]}`, none, []uint32{0, 4294967295}},
		{"generate: an id that is none", Generate, `{"input_ids":[1,4294967296]}`, none, nil},
		{"generate: a negative id", Generate, `{"input_ids":[1,-1]}`, none, nil},
		{"generate: a fraction", Generate, `{"input_ids":[1.5]}`, none, nil},
		{"generate: an exponent", Generate, `{"input_ids":[1e3]}`, none, nil},
		{"generate: ids as strings", Generate, `{"input_ids":["1"]}`, none, nil},
		{"generate: ids of another shape", Generate, `{"input_ids":{"a":1}}`, none, nil},

		{"embeddings: a string", Embeddings, `{"input":"a"}`, "a", nil},
		{"embeddings: the strings of an array", Embeddings, `{"input":["a",7,"b"]}`, "a b", nil},
		{"embeddings: ids", Embeddings, `{"input":[[7,8]]}`, none, []uint32{7, 8}},
		{"classify: a string", Classify, `{"input":"a"}`, "a", nil},
		{"embeddings: nothing", Embeddings, `{}`, none, nil},

		{
			"messages: the system text, then the messages", Messages, `{"messages":[{"role":"user","content":"U"}],"system":[{"type":"text","text":"S"}]}`,
			"S U", nil,
		},
		{"messages: a system string and blocks", Messages, `{"system":"S","messages":[{"role":"user","content":[{"type":"text","text":"a"},
			{"type":"image","source":{"type":"base64","data":"x"}},{"type":"text","text":"b"}]}]}`, "S a b", nil},
		{"count_tokens reads like messages", CountTokens, `{"system":"S","messages":[{"role":"user","content":"U"}]}`, "S U", nil},

		{"responses: a string", Responses, `{"input":"a"}`, "a", nil},
		{"responses: instructions come first", Responses, `{"input":"a","instructions":"i"}`, "i a", nil},
		{"responses: messages and reasoning, nothing else", Responses, `{"input":[{"role":"user","content":"a"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},
			{"type":"reasoning","content":[{"type":"reasoning_text","text":"r"}],"summary":[{"type":"summary_text","text":"s"}]},
			{"type":"function_call","name":"f","arguments":"{}"},{"content":"no","type":"function_call_output","output":"no"},
			{"type":"item_reference","id":"x"},
			{"role":"user","content":[{"type":"input_text","text":"c"},{"type":"input_image","image_url":"u"}]}]}`, "a b r c", nil},

		{"rerank: the query alone", Rerank, `{"query":"q","documents":["a","b"]}`, "q", nil},
		{"v1/rerank: the query alone", V1Rerank, `{"query":"q","documents":["a","b"]}`, "q", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := scanned(t, tt.body)
			require.Equal(t, tt.text, promptText(tt.kind, []byte(tt.body), f))
			require.Equal(t, tt.tokens, promptTokens(tt.kind, []byte(tt.body), f))
		})
	}
}

// cache-aware.md, section 1: the next turn's text starts with this turn's.
func TestPromptTextGrowsWithTheConversation(t *testing.T) {
	turns := []string{
		`{"role":"system","content":"s"}`, `{"role":"user","content":[{"type":"text","text":"a\n"}]}`,
		`{"role":"assistant","content":"b","reasoning_content":"r"}`, `{"role":"user","content":"c"}`,
	}
	before := ""
	for n := 1; n <= len(turns); n++ {
		body := fmt.Sprintf(`{"messages":[%s],"seed":%d}`, strings.Join(turns[:n], ","), n)
		text := promptText(Chat, []byte(body), scanned(t, body))
		require.True(t, strings.HasPrefix(text, before) && len(text) > len(before), "%q after %q", text, before)
		before = text
	}
}

// What is read of a body that was scanned must not depend on what clients put where.
func FuzzPrompt(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"assistant","content":[{"text":"a"}],"reasoning_content":"b"}],"system":["x"]}`, `{"input_ids":[[1,2]],"text":"x"}`,
		`{"input":[{"type":"message","content":"a\n"}]}`, `{"prompt":[[[1]]],"messages":{},"rid":[[]],"query":7}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fields fieldSet
		if scanObject(body, &fields) != nil {
			return
		}
		for k := range kindCount {
			require.LessOrEqual(t, len(promptText(k, body, &fields)), len(body))
			require.LessOrEqual(t, len(promptTokens(k, body, &fields)), len(body))
			_, _ = ridOf(k, body, &fields)
			if err := k.validate(body, &fields); err != nil {
				require.Equal(t, 400, err.Status)
				require.NotEmpty(t, err.Param)
			}
		}
	})
}
