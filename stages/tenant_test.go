package stages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// from is a client at an address.
type from struct {
	*caller
	peer string
}

func (f from) Peer() string { return f.peer }

// http-dataplane.md, section 11.2
func TestTenant(t *testing.T) {
	tests := []struct {
		name, header string // the one that is trusted
		before       string // the tenant of the request's key
		headers      []string
		peer         string
		want         string
	}{
		{"the tenant of the key comes first", "x-smg-tenant-id", "auth:a", []string{"X-Smg-Tenant-Id", "b"}, "10.0.0.7:5", "auth:a"},
		{"then that of the header", "x-smg-tenant-id", "", []string{"X-Smg-Tenant-Id", "b"}, "10.0.0.7:5", "header:b"},
		{"its value is trimmed", "x-smg-tenant-id", "", []string{"X-Smg-Tenant-Id", "\t b "}, "10.0.0.7:5", "header:b"},
		{"it may have another name", "X-ORG", "", []string{"X-Org", "b", "X-Smg-Tenant-Id", "c"}, "10.0.0.7:5", "header:b"},
		{"a blank one is none", "x-smg-tenant-id", "", []string{"X-Smg-Tenant-Id", "  "}, "10.0.0.7:5", "ip:10.0.0.7"},
		{"a very long one is none", "x-smg-tenant-id", "", []string{"X-Smg-Tenant-Id", strings.Repeat("b", 129)}, "10.0.0.7:5", "ip:10.0.0.7"},
		{"a long one is one", "x-smg-tenant-id", "", []string{"X-Smg-Tenant-Id", strings.Repeat("b", 128)}, "10.0.0.7:5", "header:" + strings.Repeat("b", 128)},
		{"a header that is not trusted is none", "", "", []string{"X-Smg-Tenant-Id", "b"}, "10.0.0.7:5", "ip:10.0.0.7"},
		{"the address may be of IPv6", "", "", nil, "[2001:db8::1]:5", "ip:2001:db8::1"},
		{"without an address it is nobody", "", "", nil, "@", "anonymous"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := &pipeline.Exchange{Client: from{chat(tt.headers...), tt.peer}, Tenant: tt.before}
			require.NoError(t, Tenant(tt.header).Handle(x, func(x *pipeline.Exchange) error {
				require.Equal(t, tt.want, x.Tenant)
				return nil
			}))
		})
	}
}

func TestTenantAllocatesOnceAtMost(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	next := func(*pipeline.Exchange) error { return nil }
	for name, most := range map[string]float64{"auth:a": 0, "": 1} {
		for _, header := range []string{"", "x-smg-tenant-id"} {
			x := &pipeline.Exchange{Client: chat("X-Smg-Tenant-Id", "b")}
			s := Tenant(header)
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
				x.Tenant = name
				_ = s.Handle(x, next)
			}), most)
		}
	}
}

// http-dataplane.md, section 1: a body that is too large is refused before anybody asks who sends it.
func TestAuthComesBehindTheLimitOfTheBody(t *testing.T) {
	r := newRig(t, 1, nil)
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.After("payload_limit", Auth(keysOf(t, "k")))
	})
	c := chat()
	c.length = 600_000_000
	require.Equal(t, http.StatusRequestEntityTooLarge, r.ask(c).status)
}
