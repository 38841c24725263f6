package stages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// policies.md, sections 14.2 and 14.3: the rid before the headers, either without the suffixes of turns and retries.
func TestSessionKeyIsTheRidOrTheHeaderWithoutItsTurn(t *testing.T) {
	const header = "X-Smg-Routing-Key"
	key := func(value, sent string) pipeline.RoutingKey {
		return pipeline.RoutingKey{Value: value, Source: pipeline.HeaderKey, Sent: sent}
	}
	rid := func(value, sent string) pipeline.RoutingKey {
		return pipeline.RoutingKey{Value: value, Source: pipeline.RIDKey, Sent: sent}
	}
	tests := []struct {
		name    string
		rid     string // a JSON value; "" for none
		headers []string
		want    pipeline.RoutingKey
	}{
		{"nothing", "", nil, pipeline.RoutingKey{}},
		{"a header", "", []string{header, "conv_t2"}, key("conv", "conv_t2")},
		{"a header without a suffix", "", []string{header, "conv"}, key("conv", "conv")},
		{"a rid", `"conv_t2_r1"`, nil, rid("conv", "")},
		{"a rid before the header, which stays as it was sent", `"conv42"`, []string{header, "alice_t1"}, rid("conv42", "alice_t1")},
		{"a rid that is empty", `""`, []string{header, "alice"}, key("alice", "alice")},
		{"a rid that is null", `null`, []string{header, "alice"}, key("alice", "alice")},
		{"a rid that is a number", `7`, []string{header, "alice"}, key("alice", "alice")},
		{"a rid that is too long", `"` + strings.Repeat("k", 200) + `_t1"`, []string{header, "alice"}, key("alice", "alice")},
		{"a header that is too long", "", []string{header, strings.Repeat("k", 129)}, pipeline.RoutingKey{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := small
			if tt.rid != "" {
				body = strings.TrimSuffix(small, "}") + `,"rid":` + tt.rid + `}`
			}
			c := post(chatPath, body, tt.headers...)
			x, err := c.through(t, Body(BodySettings{MaxBytes: 1 << 20}, Chat), SessionKey([]string{"x-smg-routing-key"}, Chat), last(200, nil))
			require.NoError(t, err)
			require.Equal(t, tt.want, x.Key)
			require.Equal(t, tt.want.Sent, x.Key.Header(), "what policies hash that take the header raw")
		})
	}
}
