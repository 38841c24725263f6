package server

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/smg-go/smg/stages"
)

// AuthConfig says who may use the gateway. Without a key everybody may.
type AuthConfig struct {
	APIKey              *string  `name:"api-key" secret:"" placeholder:"KEY" help:"Key that callers of the inference routes send as 'Authorization: Bearer KEY'. Workers that are named at start get it as theirs. It opens the routes for operators too, unless they have keys or tokens of their own."`
	TenantAPIKeys       []string `name:"tenant-api-key" secret:"" type:"keys" placeholder:"TENANT:KEY ..." help:"Keys of tenants, for the inference routes alone: requests are counted for the tenant."`
	ControlPlaneAPIKeys []string `name:"control-plane-api-keys" variable:"CONTROL_PLANE_API_KEYS" secret:"" type:"keys" placeholder:"ID:NAME:ROLE:KEY ..." help:"Keys for the routes for operators; --api-key does not open them any more. The role is admin, which they ask for, or user. KEY may have colons."`
	DisableAuditLogging bool     `name:"disable-audit-logging" help:"Do not log who asks on the routes for operators, and what they change."`
	AuditEnabled        bool     `name:"control-plane-audit-enabled" help:"Accepted for compatibility: it is so by default."`
	TrustTenantHeader   bool     `name:"trust-tenant-header" help:"Believe the header that names the tenant of a request without a key. Whoever stands in front of the gateway must set it, and take it from others."`
	TenantHeaderName    string   `name:"tenant-header-name" default:"x-smg-tenant-id" placeholder:"NAME" help:"That header."`
}

func defaultAuth() AuthConfig { return AuthConfig{TenantHeaderName: "x-smg-tenant-id"} }

// masked stands for a secret in a violation.
const masked = "***"

func (c *AuthConfig) check(found *violations) {
	refuse := func(flag string, entry int, reason string) {
		if entry > 0 {
			reason = fmt.Sprintf("entry %d: %s", entry, reason)
		}
		found.add(flag, masked, reason)
	}
	keys := c.servingKeys(refuse)
	c.controlKeys(keys, refuse)
	if !httpguts.ValidHeaderFieldName(c.TenantHeaderName) {
		found.add("--tenant-header-name", c.TenantHeaderName, "must be the name of an HTTP header")
	}
}

// keyRefusal hears of keys that are of no use: which flag, which of its values from 1, and why.
type keyRefusal func(flag string, entry int, reason string)

// servingKeys are the keys of the inference routes.
func (c *AuthConfig) servingKeys(refuse keyRefusal) *stages.APIKeys {
	keys := &stages.APIKeys{}
	if c.APIKey != nil {
		if err := keys.AddShared(*c.APIKey); err != nil {
			refuse("--api-key", 0, err.Error())
		}
	}
	for i, entry := range c.TenantAPIKeys {
		tenant, key, found := strings.Cut(entry, ":")
		if !found {
			refuse("--tenant-api-key", i+1, "must be TENANT:KEY")
			continue
		}
		if err := keys.AddTenant(tenant, key); err != nil {
			refuse("--tenant-api-key", i+1, err.Error())
		}
	}
	return keys
}

// controlKeys are the keys of operators. One that opens inference routes as well would make every caller an operator.
func (c *AuthConfig) controlKeys(serving *stages.APIKeys, refuse keyRefusal) *stages.Operators {
	const flag = "--control-plane-api-keys"
	operators := &stages.Operators{}
	for i, entry := range c.ControlPlaneAPIKeys {
		key, err := stages.ParseOperatorKey(entry)
		if err == nil {
			err = operators.AddKey(key)
		}
		if err != nil {
			refuse(flag, i+1, err.Error())
			continue
		}
		if _, known := serving.Tenant(key.Key); known {
			refuse(flag, i+1, "the key is one of --api-key or --tenant-api-key too")
		}
	}
	return operators
}

// workerKey is the key of workers that are named at start.
func (c *AuthConfig) workerKey() string {
	if c.APIKey == nil {
		return ""
	}
	return *c.APIKey
}
