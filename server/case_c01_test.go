package server

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// Case C01 (line-ending dialects), http-dataplane.md section 9.3: the relay does not parse event streams, so whatever an engine
// makes of the format arrives as it was written, as soon as it was written, and the numbers of its usage are counted.
func TestC01EveryDialectOfEventStreamsIsRelayedAtOnceAndAsItIs(t *testing.T) {
	tests := []struct {
		name   string
		writes []string // each is one chunk and one write of the worker
	}{
		{"events that end in CRLF CRLF", framed("data: ", "\r\n\r\n")},
		{"events that end in LF LF", framed("data: ", "\n\n")},
		{"events that end in CR CR", framed("data: ", "\r\r")},
		{"no blank behind data:", framed("data:", "\n\n")},
		{"comments, and every other field of an event", framed(": ping\n\nevent: message\nid: 7\nretry: 1000\ndata: ", "\n\n")},
		{"writes that are cut between CR and LF", cutAfter("\r", framed("data: ", "\r\n\r\n"))},
		{"writes that are cut within every line end", cutAfter("\n", framed("data: ", "\n\n"))},
		{"writes of a single character", cutAfter("", framed("data: ", "\n\n"))},
		{"JSON that spans two data lines", replaced(framed("data: ", "\n\n"), `,"i"`, ",\ndata: \"i\"")},
		{"a byte order mark in front", append([]string{"\uFEFF"}, framed("data: ", "\n\n")...)},
		{"a last event without its blank line", append(framed("data: ", "\n\n"), "data: {}")},
		{"no event at all but comments", []string{": a\n\n", ":\n\n", ": b\r\n\r\n"}},
		{"no events, and no format either", []string{"\x00\xff", "\r", "data", "\n\n\n\n"}},
	}
	for _, tt := range tests {
		for _, chunked := range []bool{true, false} {
			t.Run(tt.name+map[bool]string{true: ", in chunks", false: ", up to the end of the connection"}[chunked], func(t *testing.T) {
				requireLive(t, chatPath, chats, chunked, tt.writes)
			})
		}
	}
}

// C01 on every route that streams.
func TestC01EveryStreamingRouteRelaysAtOnce(t *testing.T) {
	tests := []struct{ path, body string }{
		{chatPath, chats},
		{"/v1/completions", `{"model":"m1","prompt":"hi","stream":true}`},
		{"/generate", `{"text":"hi","stream":true,"return_logprob":true}`},
		{"/v1/messages", `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}`},
		{"/v1/responses", `{"model":"m1","input":"hi","stream":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			requireLive(t, tt.path, tt.body, true, cutAfter("\r", framed("data: ", "\r\n\r\n")))
		})
	}
}

// requireLive plays writes to a client that acknowledges each of them before the worker makes the next one.
func requireLive(t *testing.T, path, body string, chunked bool, writes []string) {
	t.Helper()
	arrived := make(chan struct{}, len(writes)+1) // the client has the head, or one more write
	w := startPuppet(t, func(a *act) {
		if chunked {
			a.stream()
		} else {
			a.head("200 OK", "Content-Type: text/event-stream")
		}
		for _, s := range append(writes, "") {
			select {
			case <-arrived:
			case <-a.gone:
				return
			}
			switch {
			case s != "" && chunked:
				a.chunk(s)
			case s != "":
				a.write(s)
			case chunked:
				a.done()
			}
		}
	})
	g := startPuppets(t, nil, w)
	c := g.dial(t)
	c.post(t, path, len(body), body)
	resp := c.read(t)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	arrived <- struct{}{}
	for i, s := range writes {
		got := make([]byte, len(s))
		_, err := io.ReadFull(resp.Body, got)
		require.NoError(t, err, "write %d of the worker", i)
		require.Equal(t, s, string(got), "write %d of the worker", i)
		arrived <- struct{}{}
	}
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "the stream ends well, when the worker's does")
	require.Empty(t, string(rest))
	g.quiet(t)
	g.requireTokens(t, path, bytes.Count([]byte(strings.Join(writes, "")), []byte(`"usage"`)))
}

// requireTokens: 5 prompt and 4 completion tokens for each usage object that the stream had.
func (g *running) requireTokens(t *testing.T, path string, usages int) {
	t.Helper()
	model := "m1"
	if path == "/generate" {
		model = g.gateway.metrics.ModelLabel("", false)
	}
	s := g.gateway.metrics.Router.Series(model, telemetry.EndpointOf(path))
	require.EqualValues(t, 5*usages, testutil.ToFloat64(s.InputTokens), "prompt tokens")
	require.EqualValues(t, 4*usages, testutil.ToFloat64(s.OutputTokens), "completion tokens")
}

// framed is a stream of four events and the terminator, one write each.
func framed(before, after string) (writes []string) {
	for _, data := range []string{
		`{"choices":[{"delta":{"content":"a"}}],"i":1}`, `{"choices":[{"delta":{"content":"data: [DONE]\n\n"}}],"i":2}`,
		`{"choices":[{"delta":{"content":"é"}}],"i":3}`, `{"choices":[],"i":4,"usage":{"prompt_tokens":5,"completion_tokens":4}}`,
		"[DONE]",
	} {
		writes = append(writes, before+data+after)
	}
	return writes
}

// cutAfter cuts writes behind each occurrence of what.
func cutAfter(what string, writes []string) (cut []string) {
	for _, w := range writes {
		for _, piece := range strings.SplitAfter(w, what) {
			if piece != "" {
				cut = append(cut, piece)
			}
		}
	}
	return cut
}

func replaced(writes []string, from, to string) []string {
	for i, w := range writes {
		writes[i] = strings.ReplaceAll(w, from, to)
	}
	return writes
}
