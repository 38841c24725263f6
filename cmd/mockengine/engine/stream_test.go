package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// events cuts an SSE body into the names and the data of its events.
func events(t *testing.T, body string) (names, data []string) {
	t.Helper()
	require.True(t, strings.HasSuffix(body, "\n\n"), "the last event is whole")
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, rest := "", event
		if strings.HasPrefix(event, "event: ") {
			name, rest, _ = strings.Cut(strings.TrimPrefix(event, "event: "), "\n")
		}
		require.True(t, strings.HasPrefix(rest, "data: "), event)
		names, data = append(names, name), append(data, strings.TrimPrefix(rest, "data: "))
	}
	return names, data
}

// engines/captures/vllm-stream.txt
func TestStreamsOfTheOpenAIShapes(t *testing.T) {
	tests := []struct {
		name, path, body string
		events           int
		text             func(map[string]any) any
	}{
		{"chat", "/v1/chat/completions", `"messages":[]`, 1 + 3 + 1 + 1, func(c map[string]any) any { return c["delta"].(map[string]any)["content"] }},
		{"chat with usage", "/v1/chat/completions", `"messages":[],"stream_options":{"include_usage":true}`, 1 + 3 + 1 + 1 + 1, func(c map[string]any) any { return c["delta"].(map[string]any)["content"] }},
		{"completions", "/v1/completions", `"prompt":"x"`, 3 + 1, func(c map[string]any) any { return c["text"] }},
		{"completions with usage", "/v1/completions", `"prompt":"x","stream_options":{"include_usage":true}`, 3 + 1 + 1, func(c map[string]any) any { return c["text"] }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{Name: "W1"})
			resp, body := post(t, e.URL+tt.path, "{"+tt.body+`,"stream":true,"max_tokens":3}`)
			require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
			require.Equal(t, []string{"chunked"}, resp.TransferEncoding)
			_, data := events(t, body)
			require.Len(t, data, tt.events)
			require.Equal(t, "[DONE]", data[len(data)-1])
			text, finish, usage := "", "", 0
			for _, d := range data[:len(data)-1] {
				v := decode(t, d)
				require.Equal(t, "W1-1", v["id"])
				if v["usage"] != nil {
					usage++
					require.Empty(t, v["choices"])
					require.EqualValues(t, 3, v["usage"].(map[string]any)["completion_tokens"])
					continue
				}
				choice := v["choices"].([]any)[0].(map[string]any)
				s, _ := tt.text(choice).(string)
				text += s
				if choice["finish_reason"] != nil {
					finish += choice["finish_reason"].(string)
				}
			}
			require.Equal(t, newReply(3).all, text)
			require.Equal(t, "length", finish)
			require.Equal(t, strings.Contains(tt.body, "include_usage"), usage == 1)
		})
	}
}

func TestStreamOfMessagesHasNamedEvents(t *testing.T) {
	e := Start(t, Config{})
	_, body := post(t, e.URL+"/v1/messages", `{"messages":[],"stream":true,"max_tokens":2}`)
	names, data := events(t, body)
	require.Equal(t, []string{
		"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop",
	}, names)
	for i, d := range data {
		require.Equal(t, names[i], decode(t, d)["type"])
	}
	require.EqualValues(t, 2, decode(t, data[5])["usage"].(map[string]any)["output_tokens"])
}

func TestStreamOfResponsesIsNumbered(t *testing.T) {
	e := Start(t, Config{})
	_, body := post(t, e.URL+"/v1/responses", `{"input":"hi","stream":true,"max_output_tokens":2}`)
	names, data := events(t, body)
	require.Equal(t, "response.created", names[0])
	require.Equal(t, "response.completed", names[len(names)-1])
	deltas := ""
	for i, d := range data {
		v := decode(t, d)
		require.Equal(t, names[i], v["type"])
		require.EqualValues(t, i, v["sequence_number"])
		if names[i] == "response.output_text.delta" {
			deltas += v["delta"].(string)
		}
	}
	require.Equal(t, newReply(2).all, deltas)
	last := decode(t, data[len(data)-1])["response"].(map[string]any)
	require.Equal(t, "incomplete", last["status"])
	require.Len(t, last["output"], 1)
}

func TestStreamOfGenerateHasTheTextSoFar(t *testing.T) {
	e := Start(t, Config{})
	_, body := post(t, e.URL+"/generate", `{"text":"hi","stream":true,"sampling_params":{"max_new_tokens":3}}`)
	_, data := events(t, body)
	require.Len(t, data, 3+1)
	for k, d := range data[:3] {
		v := decode(t, d)
		require.Equal(t, newReply(k+1).all, v["text"])
		require.Equal(t, k == 2, v["meta_info"].(map[string]any)["finish_reason"] != nil)
	}
	_, body = post(t, e.URL+"/generate", `{"text":["a","b"],"stream":true,"sampling_params":{"max_new_tokens":3}}`)
	_, data = events(t, body)
	require.Len(t, data, 2*3+1, "a batch has an event for each of its prompts")
}

func TestAnswersArriveAsTheyAreMade(t *testing.T) {
	for _, kind := range []Kind{SGLang, VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			e := Start(t, Config{Engine: kind, ITL: time.Hour})
			nc, r := dial(t, e)
			send(t, nc, rawPost("/v1/completions", `{"prompt":"hi","stream":true}`))
			// The second token is an hour away: what can be read now was not held back for it.
			for {
				line, err := r.ReadString('\n')
				require.NoError(t, err)
				if strings.HasPrefix(line, "data: ") {
					require.Contains(t, line, `"text":"the"`)
					break
				}
			}
			require.EqualValues(t, 1, e.State().Tokens)
		})
	}
}

func TestVLLMSendsItsHeadBeforeTheFirstToken(t *testing.T) {
	e := Start(t, Config{Engine: VLLM, TTFT: time.Hour})
	nc, r := dial(t, e)
	send(t, nc, rawPost("/v1/completions", `{"prompt":"hi","stream":true}`))
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
}

func TestAPeerThatLeavesEndsItsAnswer(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		body string
	}{
		{"before the head", Config{TTFT: time.Hour}, `{"prompt":"hi"}`},
		{"between head and first event", Config{Engine: VLLM, TTFT: time.Hour}, `{"prompt":"hi","stream":true}`},
		{"between two events", Config{ITL: time.Hour}, `{"prompt":"hi","stream":true}`},
		{"while it does not read", Config{Reply: maxAhead * 10}, `{"prompt":"hi","stream":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, tt.cfg)
			nc, _ := dial(t, e)
			send(t, nc, rawPost("/v1/completions", tt.body))
			eventually(t, "in flight", func() bool { return e.State().InFlight == 1 })
			require.Nil(t, e.Requests()[0].ClosedAt)
			before := time.Now()
			require.NoError(t, nc.Close())
			eventually(t, "over", func() bool { s := e.State(); return s.InFlight == 0 && s.Connections == 0 })
			require.NotNil(t, e.Requests()[0].ClosedAt)
			require.False(t, e.Requests()[0].ClosedAt.Before(before))
		})
	}
}
