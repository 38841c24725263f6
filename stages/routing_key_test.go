package stages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// http-dataplane.md, section 7: the first valid value wins; an invalid one is skipped, and never an error.
func TestRoutingKeyIsTheFirstValueThatIsFit(t *testing.T) {
	tests := []struct {
		name    string
		headers []string
		want    string
	}{
		{"none", nil, ""},
		{"one", []string{"X-Smg-Routing-Key", "k"}, "k"},
		{"of two, the first on the list", []string{"X-Session", "s", "X-Smg-Routing-Key", "k"}, "k"},
		{"the second, if the first is not sent", []string{"X-Session", "s"}, "s"},
		{"128 bytes", []string{"X-Smg-Routing-Key", strings.Repeat("k", 128)}, strings.Repeat("k", 128)},
		{"129 bytes are skipped", []string{"X-Smg-Routing-Key", strings.Repeat("k", 129)}, ""},
		{"129 bytes are skipped for the next", []string{"X-Smg-Routing-Key", strings.Repeat("k", 129), "X-Session", "s"}, "s"},
		{"bytes count, not characters", []string{"X-Smg-Routing-Key", strings.Repeat("é", 65)}, ""},
		{"UTF-8", []string{"X-Smg-Routing-Key", "schlüssel"}, "schlüssel"},
		{"no UTF-8 is skipped", []string{"X-Smg-Routing-Key", "\xff", "X-Session", "s"}, "s"},
		{"empty is skipped", []string{"X-Smg-Routing-Key", "", "X-Session", "s"}, "s"},
		{"another header is none", []string{"X-User", "u"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := chat(tt.headers...)
			x, err := c.through(t, RoutingKey([]string{"x-smg-routing-key", "X-SESSION"}), last(200, nil))
			require.NoError(t, err)
			want := pipeline.RoutingKey{Value: tt.want, Source: pipeline.HeaderKey}
			if tt.want == "" {
				want = pipeline.RoutingKey{}
			}
			require.Equal(t, want, x.Key)
		})
	}
}
