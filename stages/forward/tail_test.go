package forward

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// DECISIONS.md rows 33 and 34; case C01: a line ends with LF, CR LF or CR, and an event with an empty line.
func TestBoundariesOfEvents(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"", true},
		{"data: 1\n\n", true},
		{"data: 1\r\n\r\n", true},
		{"data: 1\r\r", true},
		{"data: 1\n\r\n", true},
		{": ping\n\n", true},
		{"data: 1", false},
		{"data: 1\n", false},
		{"data: 1\r\n", false},
		{"data: 1\r", false},
		{"data: 1\r\n\r", false}, // an LF may follow
		{"data: 1\n\ndata: 2\n", false},
		{"\n", false},
	}
	for _, tt := range tests {
		for width := 1; width <= max(1, len(tt.text)); width++ { // however it is torn
			var tl tail
			for rest := tt.text; rest != ""; {
				n := min(width, len(rest))
				tl.add([]byte(rest[:n]))
				rest = rest[n:]
			}
			require.Equal(t, tt.want, tl.atBoundary(), "%q in pieces of %d", tt.text, width)
		}
	}
}

// The end is remembered, at least so much of it, and not much more.
func TestATailIsTheEndOfTheStream(t *testing.T) {
	for range 200 {
		var tl tail
		var all []byte
		for range rand.IntN(30) {
			piece := make([]byte, rand.IntN(1+rand.IntN(3*enough)))
			for i := range piece {
				piece[i] = byte('a' + rand.IntN(26))
			}
			tl.add(piece)
			all = append(all, piece...)
			require.GreaterOrEqual(t, len(tl.bytes()), min(len(all), enough))
			require.LessOrEqual(t, len(tl.bytes()), 2*enough+len(piece))
			require.True(t, strings.HasSuffix(string(all), string(tl.bytes())))
		}
		tl.reset()
		require.True(t, tl.atBoundary())
	}
}

// telemetry: what the engines say of their work, in an answer or at the end of a stream.
func TestUsage(t *testing.T) {
	far := strings.Repeat(" ", 3*enough)
	tests := []struct {
		name, body string
		want       pipeline.Usage
	}{
		{"OpenAI", `{"id":"x","usage":{"prompt_tokens":11,"total_tokens":13,"completion_tokens":2,"prompt_tokens_details":null}}`, pipeline.Usage{InputTokens: 11, OutputTokens: 2}},
		{"OpenAI with details before the totals", `{"usage":{"completion_tokens_details":{"reasoning_tokens":9},"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8},"prompt_tokens":11}}`, pipeline.Usage{InputTokens: 11, OutputTokens: 2}},
		{"embeddings have no output", `{"usage":{"prompt_tokens":4,"total_tokens":4}}`, pipeline.Usage{InputTokens: 4}},
		{"Anthropic", `{"usage":{"input_tokens":5,"output_tokens":6}}`, pipeline.Usage{InputTokens: 5, OutputTokens: 6}},
		{"SGLang", `{"text":"a","meta_info":{"id":"x","prompt_tokens":4,"completion_tokens":2,"cached_tokens":1}}`, pipeline.Usage{InputTokens: 4, OutputTokens: 2}},
		{"with spaces", `{"usage" : {"prompt_tokens" : 3 , "completion_tokens":	1}}`, pipeline.Usage{InputTokens: 3, OutputTokens: 1}},
		{"the last of several", `{"usage":{"prompt_tokens":1,"completion_tokens":1}}{"usage":{"prompt_tokens":2,"completion_tokens":2}}`, pipeline.Usage{InputTokens: 2, OutputTokens: 2}},
		{"in a text it is escaped", `{"usage":{"prompt_tokens":1,"completion_tokens":1},"text":"\"usage\":{\"prompt_tokens\":9}"}`, pipeline.Usage{InputTokens: 1, OutputTokens: 1}},
		{"null", `{"usage":null}`, pipeline.Usage{}},
		{"numbers of another kind", `{"usage":{"prompt_tokens":1.5,"completion_tokens":-2,"x":"y"}}`, pipeline.Usage{}},
		{"a number that is too large", `{"usage":{"prompt_tokens":12345678901234567890,"completion_tokens":1}}`, pipeline.Usage{OutputTokens: 1}},
		{"the largest", `{"usage":{"prompt_tokens":999999999999999,"completion_tokens":1}}`, pipeline.Usage{InputTokens: 999999999999999, OutputTokens: 1}},
		{"a number without an end", `{"usage":{"prompt_tokens":12`, pipeline.Usage{}},
		{"a key without a value", `{"usage":{"prompt_tokens"`, pipeline.Usage{}},
		{"at the end of a long answer", far + `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, pipeline.Usage{InputTokens: 1, OutputTokens: 2}},
		{"too far from the end", `{"usage":{"prompt_tokens":1,"completion_tokens":2}}` + far, pipeline.Usage{}},
		{"nothing", ``, pipeline.Usage{}},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, usageIn([]byte(tt.body)), tt.name)
	}
}

func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	f.Add([]byte(`"meta_info""prompt_tokens":12e3`))
	f.Fuzz(func(t *testing.T, body []byte) {
		const largest = 1e15
		if u := usageIn(body); u.InputTokens < 0 || u.OutputTokens < 0 || u.InputTokens >= largest || u.OutputTokens >= largest {
			t.Fatalf("%+v", u)
		}
	})
}

func FuzzBoundary(f *testing.F) {
	f.Add([]byte("data: 1\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var whole, torn tail
		whole.add(text)
		at = min(max(0, at), len(text))
		torn.add(text[:at])
		torn.add(text[at:])
		if whole.atBoundary() != torn.atBoundary() {
			t.Fatalf("%q torn at %d", text, at)
		}
	})
}
