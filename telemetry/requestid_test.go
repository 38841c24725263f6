package telemetry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 8; http-dataplane.md, section 14
func TestMintedRequestIDTellsTheRoute(t *testing.T) {
	const random = `[A-Za-z0-9]{24}$`
	tests := []struct{ name, path, want string }{
		{"a chat completion has a prefix of its own", "/v1/chat/completions", "^chatcmpl-" + random},
		{"a completion is not taken for a chat", "/v1/completions", "^cmpl-" + random},
		{"generate has a prefix of its own", "/generate", "^gnt-" + random},
		{"responses has a prefix of its own", "/v1/responses", "^resp-" + random},
		{"messages has an underscore, as the API's own ids do", "/v1/messages", "^msg_" + random},
		{"another route is a plain request", "/v1/embeddings", "^req-" + random},
		{"the suffix counts and not a part of the path", "/v1/responses/r1", "^req-" + random},
		{"an empty path is a plain request", "", "^req-" + random},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Regexp(t, tt.want, MintRequestID(tt.path)) })
	}
}

func TestMintedRequestIDsUseTheWholeAlphabetAndDiffer(t *testing.T) {
	seen, chars := make(map[string]bool), make(map[rune]bool)
	for range 2000 {
		id := MintRequestID("/generate")
		require.False(t, seen[id], id)
		require.True(t, ValidRequestID(id), id)
		seen[id] = true
		for _, c := range strings.TrimPrefix(id, "gnt-") {
			chars[c] = true
		}
	}
	require.Len(t, chars, len(requestIDAlphabet))
}

// DECISIONS.md, row 35
func TestRequestIDOfAClientIsKeptIfItCanStandInAHeader(t *testing.T) {
	tests := []struct {
		name, id string
		valid    bool
	}{
		{"one character is enough", "a", true},
		{"128 characters are kept", strings.Repeat("x", 128), true},
		{"129 characters are not", strings.Repeat("x", 129), false},
		{"an empty id is none", "", false},
		{"every visible ASCII character is kept", `!~"{}/:`, true},
		{"a space is not visible", "a b", false},
		{"a line break would forge a log line", "a\nb", false},
		{"DEL is not visible", "a\x7f", false},
		{"bytes above ASCII are replaced", "é", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.valid, ValidRequestID(tt.id)) })
	}
}
