package main

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// The tiers of tenants.
const (
	standard = "standard"
	premium  = "premium"
)

// tier is a fact of this program: what the tenant of a request has paid for.
var tier = pipeline.NewFact[string]("tier")

// Tier finds out the tenant's tier by the header X-Tenant, which whoever stands in front of this program has checked. A tenant that
// is not in the list is 403 unknown_tenant. It stands before the retry stage: a request has the same tier in all attempts.
func Tier(list *tenants) pipeline.Stage { return &tierStage{list} }

type tierStage struct{ tenants *tenants }

var (
	_ pipeline.Stage      = (*tierStage)(nil)
	_ pipeline.Contracted = (*tierStage)(nil) // optional, so a misspelt method would go unnoticed without this line
)

func (*tierStage) Name() string { return "tier" }

func (s *tierStage) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{tier}, Uses: []pipeline.Dependency{s.tenants}}
}

func (s *tierStage) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	t, known := s.tenants.tier(x.Client.Header("X-Tenant"))
	if !known {
		return &pipeline.Error{
			Status: http.StatusForbidden, Code: "unknown_tenant", Message: "X-Tenant names no tenant of this service", Terminal: true,
		}
	}
	tier.Set(x, t)
	return next(x)
}
