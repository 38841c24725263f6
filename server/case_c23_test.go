package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C23 (message shapes), http-dataplane.md section 3: every form of a message that engines take is served, and reaches the worker
// byte for byte. The gateway reads the text of them all, since cache_aware needs it. Prefill and decode are a later part.
func TestC23EveryShapeOfAMessageReachesTheWorkerUnchanged(t *testing.T) {
	const (
		user = `{"role":"user","content":"hi"}`
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		tool = `{"role":"tool","tool_call_id":"c1","content":`
	)
	tests := []struct{ name, messages, more string }{
		{name: "text and an image", messages: `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]`},
		{name: "an image as a bare string", messages: `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":"http://x/y.png"}]}]`},
		{name: "sound", messages: `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}]}]`},
		{name: "an image alone", messages: `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]`},
		{name: "a call of a tool without content", messages: "[" + user + "," + call + "," + tool + `"ok"}]`},
		{
			name:     "an assistant whose content is missing",
			messages: "[" + user + `,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` + tool + `"ok"}]`,
		},
		{name: "the answer of a tool as parts", messages: "[" + user + "," + call + "," + tool + `[{"type":"text","text":"ok"}]}]`},
		{name: "a tool that answers with an image", messages: "[" + user + "," + call + "," + tool + `[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]`},
		{name: "a developer", messages: `[{"role":"developer","content":"be brief"},` + user + "]"},
		{name: "a function", messages: "[" + user + `,{"role":"function","name":"f","content":"1"},` + user + "]"},
		{name: "empty content", messages: `[{"role":"user","content":""}]`},
		{name: "content without parts", messages: `[{"role":"user","content":[]}]`},
		{name: "a part that refuses", messages: "[" + user + `,{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},` + user + "]"},
		{name: "a refusal beside the content", messages: "[" + user + `,{"role":"assistant","content":null,"refusal":"no"},` + user + "]"},
		{name: "a part of a kind that is not known yet", messages: `[{"role":"user","content":[{"type":"smell","smell":{"of":"roses"}},{"type":"text","text":"a"}]}]`},
		{name: "stream is null", messages: "[" + user + "]", more: `,"stream":null`},
		{name: "logprobs is null", messages: "[" + user + "]", more: `,"logprobs":null`},
	}
	for _, way := range rewrites {
		e := engine.Start(t, engine.Config{})
		g := start(t, func(c *Config) {
			c.Policy = "cache_aware"
			way.configure(c)
		}, e)
		for _, tt := range tests {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				body := func(model string) string {
					return `{"messages": ` + tt.messages + ` , "model":"` + model + `"` + tt.more + "}"
				}
				r := g.post(t, chatPath, body(way.model))
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				all := posts(e)
				require.Equal(t, body("m1"), string(all[len(all)-1].Body))
			})
		}
	}
}

// Case C23, cache-aware.md section 1: ten conversations that begin alike go to one worker, whether their content is a string or an array of
// parts. With another beginning each, both workers get some: that is not for want of anything else.
func TestC23ConversationsThatBeginAlikeStayTogether(t *testing.T) {
	plain := func(text string) string { return fmt.Sprintf("%q", text) }
	parts := func(text string) string { return fmt.Sprintf(`[{"type":"text","text":%q}]`, text) }
	image := func(text string) string {
		return fmt.Sprintf(`[{"type":"image_url","image_url":{"url":"http://x/y.png"}},{"type":"text","text":%q}]`, text)
	}
	tests := []struct {
		name     string
		contents []func(string) string // of the conversations, in turn
		alike    bool
	}{
		{"strings", []func(string) string{plain}, true},
		{"arrays", []func(string) string{parts}, true},
		{"strings and arrays in turn", []func(string) string{plain, parts}, true},
		{"with images here and there", []func(string) string{plain, image}, true},
		{"strings that begin otherwise", []func(string) string{plain}, false},
		{"arrays that begin otherwise", []func(string) string{parts}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
			g := start(t, func(c *Config) { c.Policy, c.LoadMonitorInterval = "cache_aware", 3600 }, w1, w2)
			g.serving(t, 2)
			for i := range 10 {
				head := strings.Repeat("shared words of a long conversation ", 85)
				if !tt.alike {
					head = strings.Repeat(fmt.Sprintf("%d words of a conversation of its own ", i), 85)
				}
				content := tt.contents[i%len(tt.contents)]
				r := g.post(t, chatPath, fmt.Sprintf(
					`{"model":"m1","messages":[{"role":"user","content":%s},{"role":"assistant","content":%s},{"role":"user","content":%s}]}`,
					content(head), content("ok"), content(fmt.Sprintf("question %d is different", i))))
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
			}
			g.quiet(t)
			most := max(len(posts(w1)), len(posts(w2)))
			if tt.alike {
				require.Equal(t, 10, most)
			} else {
				require.Less(t, most, 10)
			}
		})
	}
}
