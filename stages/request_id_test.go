package stages

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// http-dataplane.md, section 14; telemetry.md, section 8; DECISIONS 35. A want that begins with ^ is a pattern.
func TestRequestIDKeepsWhatTheClientSentIfItIsFit(t *testing.T) {
	fresh := func(prefix string) string { return "^" + prefix + "[A-Za-z0-9]{24}$" }
	tests := []struct {
		name, path string
		headers    []string
		want       string
	}{
		{"the first header", chatPath, []string{"X-Request-Id", "a"}, "a"},
		{"another header, if it is alone", chatPath, []string{"X-Correlation-Id", "c1"}, "c1"},
		{"the first of several", chatPath, []string{"X-Correlation-Id", "b", "X-Request-Id", "a"}, "a"},
		{"the second before the third", chatPath, []string{"X-Trace-Id", "t", "X-Correlation-Id", "c"}, "c"},
		{"the last one", chatPath, []string{"Request-Id", "r"}, "r"},
		{"128 characters", chatPath, []string{"X-Request-Id", strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
		{"129 characters", chatPath, []string{"X-Request-Id", strings.Repeat("x", 129)}, fresh("chatcmpl-")},
		{"a space in it", chatPath, []string{"X-Request-Id", "a b"}, fresh("chatcmpl-")},
		{"more than ASCII", chatPath, []string{"X-Request-Id", "é"}, fresh("chatcmpl-")},
		{"the first header decides, even if it is unfit", chatPath, []string{"X-Request-Id", "a b", "X-Correlation-Id", "c"}, fresh("chatcmpl-")},
		{"an empty one is none", chatPath, []string{"X-Request-Id", "", "X-Correlation-Id", "c"}, "c"},
		{"a header that is not on the list", chatPath, []string{"X-Amzn-Trace-Id", "z"}, fresh("chatcmpl-")},
		{"no header, chat", chatPath, nil, fresh("chatcmpl-")},
		{"no header, completions", "/v1/completions", nil, fresh("cmpl-")},
		{"no header, generate", "/generate", nil, fresh("gnt-")},
		{"no header, responses", "/v1/responses", nil, fresh("resp-")},
		{"no header, messages", "/v1/messages", nil, fresh("msg_")},
		{"no header, anything else", "/v1/embeddings", nil, fresh("req-")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ids := RequestID([]string{"x-request-id", "X-CORRELATION-ID", "x-trace-id", "request-id"})
			c := post(tt.path, small, tt.headers...)
			x, err := c.through(t, ids, last(200, nil))
			require.NoError(t, err)
			if strings.HasPrefix(tt.want, "^") {
				require.Regexp(t, tt.want, x.ID)
			} else {
				require.Equal(t, tt.want, x.ID)
			}
			require.Equal(t, []string{x.ID}, c.head.Values("X-Request-Id"))
		})
	}
}

// DECISIONS 26: what clients of /v1/messages are told is in the form that they know; the official one reads the id from request-id.
func TestRequestIDIsWhereClientsOfMessagesLookForIt(t *testing.T) {
	for path, want := range map[string][]string{
		"/v1/messages":              {"mine"},
		"/v1/messages/count_tokens": {"mine"},
		"/v1/messagesandmore":       {"the worker's"},
		chatPath:                    {"the worker's"},
	} {
		c := post(path, small, "X-Request-Id", "mine")
		theirs := &pipeline.Answer{Status: 503, Fields: []pipeline.Field{{Name: "Request-Id", Value: "the worker's"}}}
		failing := pipeline.StageFunc("failing", pipeline.Contract{}, func(*pipeline.Exchange, pipeline.Next) error {
			return &pipeline.Error{Status: 503, Held: theirs}
		})
		_, err := c.through(t, RequestID([]string{"x-request-id"}), failing)
		require.Error(t, err)
		require.Equal(t, want, c.head.Values("Request-Id"), path)
		require.Equal(t, []string{"mine"}, c.head.Values("X-Request-Id"), path)
	}
}

// http-dataplane.md, section 14: on every response, whatever comes of the request.
func TestRequestIDIsOnErrorsToo(t *testing.T) {
	for name, end := range map[string]error{
		"an error":         &pipeline.Error{Status: 503, Code: "x"},
		"a mistake":        errors.New("oops"),
		"an answer of old": &pipeline.Error{Status: 503, Held: &pipeline.Answer{Status: 503, Fields: []pipeline.Field{{Name: "X-Request-Id", Value: "the worker's"}}}},
	} {
		c := chat("X-Request-Id", "mine")
		failing := pipeline.StageFunc("failing", pipeline.Contract{}, func(*pipeline.Exchange, pipeline.Next) error { return end })
		_, err := c.through(t, RequestID([]string{"x-request-id"}), failing)
		require.Error(t, err)
		require.Equal(t, []string{"mine"}, c.head.Values("X-Request-Id"), name)
	}
}

// telemetry.md, section 8: forwarded to workers, and a worker's own does not replace it.
func TestRequestIDGoesToTheWorkerAndComesBack(t *testing.T) {
	r := newRig(t, 1, nil)
	c := r.ask(chat("X-Request-Id", "abc"))
	require.Equal(t, []string{"abc"}, r.posts(0)[0].Values("x-request-id"))
	require.Equal(t, []string{"abc"}, c.head.Values("X-Request-Id"))
}
