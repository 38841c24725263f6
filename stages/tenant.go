package stages

import (
	"net"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// Tenant finds out whom a request is counted for: the tenant of its key ("auth:acme"), else the value of a header that whoever stands
// in front of the gateway sets ("header:acme"), else the address that the connection comes from ("ip:10.0.0.7"), else "anonymous".
// header is the name of that header; "" trusts none. A value of more than 128 bytes is none.
//
// It stands behind auth. Cost: at most one allocation, none for the tenant of a key.
func Tenant(header string) pipeline.Stage {
	if header != "" {
		header = pipeline.CanonicalNames([]string{header})[0]
	}
	return &tenant{header}
}

type tenant struct{ header string }

// maxTenant is the longest value of a header, in bytes, that names a tenant.
const maxTenant = 128

var (
	_ pipeline.Stage      = (*tenant)(nil)
	_ pipeline.Contracted = (*tenant)(nil)
)

func (*tenant) Name() string { return "tenant" }

func (*tenant) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{pipeline.Tenant}}
}

func (s *tenant) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Tenant == "" {
		x.Tenant = s.of(x.Client)
	}
	return next(x)
}

// of is the tenant of a client without a key.
func (s *tenant) of(c pipeline.Client) string {
	if s.header != "" {
		if v := strings.TrimSpace(c.Header(s.header)); v != "" && len(v) <= maxTenant {
			return "header:" + v
		}
	}
	if host, _, err := net.SplitHostPort(c.Peer()); err == nil && host != "" {
		return "ip:" + host
	}
	return "anonymous"
}
