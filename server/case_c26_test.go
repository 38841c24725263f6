package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C26 (escapes), http-dataplane.md section 3.4: strings reach the worker byte for byte, however odd, also in a body that had to
// be edited. Only what no engine can read may be answered 400 instead.
func TestC26StringsReachTheWorkerByteForByte(t *testing.T) {
	tests := []struct {
		name, text string
		may400     bool
	}{
		{"the first half of a surrogate pair", `cut \ud83d`, true},
		{"the second half of a surrogate pair", `\ude00 cut`, true},
		{"the halves the wrong way round", `\ude00\ud83d`, true},
		{"a whole pair", `\ud83d\ude00`, false},
		{"a pair in capitals", `\uD83D\uDE00`, false},
		{"an escaped NUL", `\u0000`, false},
		{"an escaped slash", `<\/script>`, false},
		{"an escaped angle bracket", `\u003c`, false},
		{"markup as it is", `<&>`, false},
		{"line separators as they are", "\u2028\u2029", false},
		{"every short escape", `\"\\\/\b\f\n\r\t`, false},
		{"a delete character", "\x7f", false},
		{"an emoji as it is", "😀", false},
		{"a byte order mark within", "\uFEFF", false},
		{"what looks like a member", `\",\"model\":\"m9`, false},
		{"invalid UTF-8", "a\xff\xfeb", true},
		{"a surrogate in UTF-8", "a\xed\xa0\xbdb", true},
		{"an overlong slash", "\xc0\xaf", true},
		{"a character that is cut off", "a\xf0\x9f\x98", true},
		{"a megabyte", strings.Repeat(`\u00e9`, 150_000), false},
	}
	for _, way := range rewrites {
		e := engine.Start(t, engine.Config{})
		g := start(t, way.configure, e)
		for _, tt := range tests {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				e.ClearRequests()
				form := `{"model":"MODEL","messages":[{"role":"user","content":"` + tt.text + `"}],"user":"` + tt.text + `"}`
				r := g.post(t, chatPath, strings.Replace(form, "MODEL", way.model, 1))
				if r.StatusCode == http.StatusBadRequest && tt.may400 && len(posts(e)) == 0 {
					requireJSONError(t, r, http.StatusBadRequest, r.Header.Get("X-SMG-Error-Code"))
					return
				}
				require.Len(t, posts(e), 1, r.Body)
				require.True(t, strings.Replace(form, "MODEL", "m1", 1) == string(posts(e)[0].Body), "the worker reads what the client wrote")
			})
		}
	}
}

// C26: what no JSON parser takes is 400, never a failure of the gateway or a worker's to sort out.
func TestC26WhatIsNoJSONIs400(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for name, text := range map[string]string{
		"a control character": "\x01", "a line end": "a\nb", "a tab": "a\tb", "an unknown escape": `\x41`, "a short escape": `\u12`, "an escape with a sign": `\u+123`, "half an escape": `\`,
	} {
		t.Run(name, func(t *testing.T) {
			r := g.post(t, chatPath, `{"model":"m1","messages":[{"role":"user","content":"`+text+`"}]}`)
			requireJSONError(t, r, http.StatusBadRequest, "invalid_json")
			require.Empty(t, posts(e))
		})
	}
}

// C26: a byte order mark in front is passed on or refused, as the gateway likes, but it does not fail.
func TestC26AByteOrderMarkDoesNoHarm(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	body := "\uFEFF" + chat
	r := g.post(t, chatPath, body)
	if r.StatusCode == http.StatusBadRequest {
		requireJSONError(t, r, http.StatusBadRequest, "invalid_json")
		require.Empty(t, posts(e))
		return
	}
	require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
	require.Contains(t, []string{body, chat}, string(posts(e)[0].Body))
}

// C26, DECISIONS.md row 6: the gateway acts on the value that the worker will act on, which of a key that is there twice is the
// last, and the bytes go as they came.
func TestC26GatewayAndWorkerActOnTheSameValue(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	tests := []struct {
		name, body string
		by         string // the worker that answers; empty: nobody, 404
		streamed   bool
	}{
		{"the model twice", `{"model":"m1","model":"m2",` + messages + `}`, "W2", false},
		{"the model twice, the other way round", `{"model":"m2",` + messages + `,"model":"m1"}`, "W1", false},
		{"the model twice, the last time one that nobody serves", `{"model":"m1","model":"m9",` + messages + `}`, "", false},
		{"the model three times", `{"model":"m2","model":"m2","model":"m1",` + messages + `}`, "W1", false},
		{"another key that differs in case only", `{"model":"m1","Model":"m2","MODEL":"m2",` + messages + `}`, "W1", false},
		{"a model within another object", `{"model":"m1","x":{"model":"m2"},` + messages + `}`, "W1", false},
		{"a key with an escape", `{"model":"m1","mod\u0065l":"m2",` + messages + `}`, "W2", false},
		{"a value with an escape", `{"model":"\u006d2",` + messages + `}`, "W2", false},
		{"stream twice, true at last", `{"model":"m1","stream":false,"stream":true,` + messages + `}`, "W1", true},
		{"stream twice, false at last", `{"model":"m1","stream":true,` + messages + `,"stream":false}`, "W1", false},
		{"Stream is not stream", `{"model":"m1","Stream":true,` + messages + `}`, "W1", false},
		{"messages twice, empty at first", `{"model":"m1","messages":[],` + messages + `}`, "W1", false},
	}
	w1 := engine.Start(t, engine.Config{Name: "W1", Engine: engine.VLLM, Models: []string{"m1"}})
	w2 := engine.Start(t, engine.Config{Name: "W2", Models: []string{"m2"}})
	g := start(t, func(c *Config) { c.EnableIGW = true }, w1, w2)
	g.serving(t, 2)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w1.ClearRequests()
			w2.ClearRequests()
			r := g.post(t, chatPath, tt.body)
			seen := append(posts(w1), posts(w2)...)
			if tt.by == "" {
				requireJSONError(t, r, http.StatusNotFound, "model_not_found")
				require.Empty(t, seen)
				return
			}
			require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
			require.Contains(t, r.Body, `"id":"`+tt.by+"-")
			require.Equal(t, tt.streamed, strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream"))
			require.Len(t, seen, 1)
			require.Equal(t, tt.body, string(seen[0].Body))
		})
	}
	t.Run("messages twice, empty at last", func(t *testing.T) {
		r := g.post(t, chatPath, `{"model":"m1",`+messages+`,"messages":[]}`)
		requireJSONError(t, r, http.StatusBadRequest, r.Header.Get("X-SMG-Error-Code"))
	})
}

// C26: of a model that is there twice the one that counts is edited.
func TestC26TheModelThatCountsIsTheOneThatIsEdited(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, rewrites[1].configure, e)
	r := g.post(t, chatPath, `{"model":"nick","messages":[{"role":"user","content":"nick"}],"model":"nick"}`)
	require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
	require.Equal(t, `{"model":"nick","messages":[{"role":"user","content":"nick"}],"model":"m1"}`, string(posts(e)[0].Body))
}
