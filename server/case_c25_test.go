package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// rewrites are a gateway that leaves bodies as they are, and one that has to edit the model in them.
var rewrites = []struct {
	name, model string
	configure   func(*Config)
}{
	{"as it came", "m1", func(*Config) {}},
	{"with the model edited", "nick", func(c *Config) { c.ModelAliases = []ModelAlias{{Alias: "nick", Model: "m1"}} }},
}

// Case C25 (numbers), http-dataplane.md section 3.4: what the client wrote is what the worker reads, digit for digit, also in a body
// that had to be edited.
func TestC25NumbersReachTheWorkerAsTheyWereWritten(t *testing.T) {
	tests := []struct{ name, member string }{
		{"an integer above 2^53", `"seed":9007199254740993`},
		{"an integer above 2^64", `"x":123456789012345678901234567890`},
		{"a thousand digits", `"x":` + strings.Repeat("9", 1000)},
		{"a small exponent", `"temperature":1e-7`},
		{"a fraction of zero", `"top_p":1.0`},
		{"a capital exponent", `"max_tokens":1E1`},
		{"a signed exponent", `"max_tokens":1e+1`},
		{"a negative number in an object", `"logit_bias":{"50256":-100}`},
		{"a negative zero", `"y":-0.0`},
		{"a negative zero of a field with rules", `"temperature":-0.0`},
		{"more than a float holds", `"z":1e400`},
		{"more than a float holds in a field with rules", `"max_tokens":1e400`},
		{"less than a float holds", `"z":1e-400`},
		{"digits that a float would cut", `"temperature":0.1000000000000000055511151231257827`},
		{"numbers in lists", `"x":[1.0,1e0,10E-1,[100000000000000000001]]`},
		{"blanks around a number", `"x" :  1.50 `},
	}
	for _, way := range rewrites {
		e := engine.Start(t, engine.Config{})
		g := start(t, way.configure, e)
		for _, tt := range tests {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				for _, form := range []string{
					`{"model":"MODEL","messages":[{"role":"user","content":"hi"}],` + tt.member + `}`,
					`{` + tt.member + `,"messages":[{"role":"user","content":"hi"}],"model":"MODEL"}`,
				} {
					e.ClearRequests()
					r := g.post(t, chatPath, strings.Replace(form, "MODEL", way.model, 1))
					require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
					require.Equal(t, strings.Replace(form, "MODEL", "m1", 1), string(posts(e)[0].Body))
				}
			})
		}
	}
}

// C25: a number that is out of a rule's range, or none, is the client's mistake and nobody else's.
func TestC25WhatIsNoUsableNumberIs400(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for _, member := range []string{
		`"temperature":1e400`, `"temperature":-1e400`, `"top_p":1e-400`, `"max_tokens":-1`, `"max_tokens":1.5`, `"n":123456789012345678901234567890`,
		`"temperature":NaN`, `"x":NaN`, `"x":Infinity`, `"x":-Infinity`, `"x":+1`, `"x":01`, `"x":.5`, `"x":1.`, `"x":1e`, `"x":0x10`, `"x":-`, `"x":1_000`,
	} {
		t.Run(member, func(t *testing.T) {
			e.ClearRequests()
			r := g.post(t, chatPath, `{"model":"m1","messages":[{"role":"user","content":"hi"}],`+member+`}`)
			requireJSONError(t, r, http.StatusBadRequest, r.Header.Get("X-SMG-Error-Code"))
			require.Empty(t, posts(e))
		})
	}
}

// C25: numbers in a worker's answer that JSON does not know are the client's to read; the answer is neither changed nor refused.
func TestC25AnswersWithOddNumbersArriveAsTheyAre(t *testing.T) {
	const odd = `{"id":"W1-1","logprobs":[-Infinity,NaN,-1.5],"usage":{"prompt_tokens":NaN,"completion_tokens":1e400},"x":123456789012345678901234567890,"z":-0.0}`
	event := "data: " + odd + "\n\n"
	tests := []struct {
		name, path, body string
		fault            engine.Fault
		want             string
	}{
		{"a chat", chatPath, chat, engine.Fault{Body: odd}, odd},
		{"a native answer", "/generate", `{"text":"hi","return_logprob":true}`, engine.Fault{Body: odd}, odd},
		{"an error", chatPath, chat, engine.Fault{Body: odd, Status: 400}, odd},
		{"a stream", chatPath, chats, engine.Fault{Chunks: []string{event, event, "data: [DONE]\n\n"}}, event + event + "data: [DONE]\n\n"},
		{"a native stream", "/generate", `{"text":"hi","return_logprob":true,"stream":true}`, engine.Fault{Chunks: []string{event, "data: [DONE]\n\n"}}, event + "data: [DONE]\n\n"},
		{"no JSON at all", chatPath, chat, engine.Fault{Body: "NaN,"}, "NaN,"},
	}
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e.SetFaults(tt.fault)
			r := g.post(t, tt.path, tt.body)
			require.NoError(t, r.Err)
			require.Equal(t, max(tt.fault.Status, http.StatusOK), r.StatusCode)
			require.Equal(t, tt.want, r.Body)
		})
	}
	require.Zero(t, g.failures())
}
