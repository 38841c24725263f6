package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// cli.md, sections 5.12 and 6.5; http-dataplane.md, section 12.1; workers.md, section 20. No sentence repeats a key.
func TestKeysAreCheckedAtStart(t *testing.T) {
	shared := func(key string) func(*server.Config) { return func(c *server.Config) { c.APIKey = &key } }
	tenants := func(keys ...string) func(*server.Config) { return func(c *server.Config) { c.TenantAPIKeys = keys } }
	operators := func(keys ...string) func(*server.Config) {
		return func(c *server.Config) { c.ControlPlaneAPIKeys = keys }
	}
	both := func(sets ...func(*server.Config)) func(*server.Config) {
		return func(c *server.Config) {
			for _, set := range sets {
				set(c)
			}
		}
	}
	tests := []struct {
		name string
		set  func(*server.Config)
		want []string
	}{
		{"a key", shared("k"), nil},
		{"an empty key is not no key", shared(""), []string{"invalid --api-key: '***': the key is empty"}},
		{"a blank key", shared("  "), []string{"invalid --api-key: '***': the key has blanks around it"}},
		{"a padded key", shared("k "), []string{"invalid --api-key: '***': the key has blanks around it"}},
		{"tenants", tenants("a:k1", "b:k2", "a:k3:with:colons"), nil},
		{"an entry without a colon", tenants("a:k1", "sk-secret"), []string{"invalid --tenant-api-key: '***': entry 2: must be TENANT:KEY"}},
		{"an empty tenant", tenants(":k"), []string{"invalid --tenant-api-key: '***': entry 1: the tenant is empty"}},
		{"a padded tenant", tenants("a :k"), []string{"invalid --tenant-api-key: '***': entry 1: the tenant has blanks around it"}},
		{"an empty tenant key", tenants("a:"), []string{"invalid --tenant-api-key: '***': entry 1: the key is empty"}},
		{"a padded tenant key", tenants("a: k"), []string{"invalid --tenant-api-key: '***': entry 1: the key has blanks around it"}},
		{"two tenants with one key", tenants("a:k", "b:k"), []string{"invalid --tenant-api-key: '***': entry 2: the key is given twice"}},
		{"a tenant with the shared key", both(shared("k"), tenants("a:k")), []string{"invalid --tenant-api-key: '***': entry 1: the key is given twice"}},
		{"operators", operators("o:O O:Admin:k:1", "p:P:user:k2"), nil},
		{"an operator without all parts", operators("o:O:admin"), []string{"invalid --control-plane-api-keys: '***': entry 1: must be id:name:role:key"}},
		{"an operator of another role", operators("o:O:root:k"), []string{"invalid --control-plane-api-keys: '***': entry 1: the role must be admin or user"}},
		{"two operators with one key", operators("o:O:admin:k", "p:P:user:k"), []string{"invalid --control-plane-api-keys: '***': entry 2: the key is given twice"}},
		{
			"an operator with the key of all callers", both(shared("k"), operators("o:O:admin:k")),
			[]string{"invalid --control-plane-api-keys: '***': entry 1: the key is one of --api-key or --tenant-api-key too"},
		},
		{
			"all that is wrong at once", both(tenants("x", "a:"), operators("y")),
			[]string{
				"invalid --tenant-api-key: '***': entry 1: must be TENANT:KEY", "invalid --tenant-api-key: '***': entry 2: the key is empty",
				"invalid --control-plane-api-keys: '***': entry 1: must be id:name:role:key",
			},
		},
		{"a tenant's header is a header", func(c *server.Config) { c.TenantHeaderName = "a b" }, []string{"invalid --tenant-header-name: 'a b': must be the name of an HTTP header"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			tt.set(cfg)
			require.Equal(t, tt.want, sentences(cfg.Validate()))
		})
	}
}

// cli.md, section 5.12; workers.md, section 20
func TestTokensAreCheckedAtStart(t *testing.T) {
	type c = server.Config
	const idp, where = "https://idp.example", "https://idp.example/keys"
	tests := []struct {
		name string
		set  func(*c)
		want []string
	}{
		{"issuer and audience", func(c *c) { c.JWTIssuer, c.JWTAudience = new(idp), new("smg") }, nil},
		{"and where the keys are", func(c *c) { c.JWTIssuer, c.JWTAudience, c.JWKSURI = new("any text"), new("smg"), new(where) }, nil},
		{"an issuer alone", func(c *c) { c.JWTIssuer = new(idp) }, []string{"invalid --jwt-issuer: 'https://idp.example': needs --jwt-audience too"}},
		{"an audience alone", func(c *c) { c.JWTAudience = new("smg") }, []string{"invalid --jwt-audience: 'smg': needs --jwt-issuer too"}},
		{"keys alone", func(c *c) { c.JWKSURI = new(where) }, []string{"invalid --jwt-jwks-uri: 'https://idp.example/keys': needs --jwt-issuer and --jwt-audience too"}},
		{"an empty issuer is not no issuer", func(c *c) { c.JWTIssuer, c.JWTAudience = new(""), new("smg") }, []string{"invalid --jwt-issuer: '': must not be empty"}},
		{"an empty audience would let all in", func(c *c) { c.JWTIssuer, c.JWTAudience = new(idp), new(" ") }, []string{"invalid --jwt-audience: ' ': must not be empty"}},
		{"an issuer that is asked has a URL", func(c *c) { c.JWTIssuer, c.JWTAudience = new("idp"), new("smg") }, []string{"invalid --jwt-issuer: 'idp': must be an absolute URL"}},
		{
			"keys in a private network", func(c *c) { c.JWTIssuer, c.JWTAudience, c.JWKSURI = new(idp), new("smg"), new("https://10.1.2.3/k") },
			[]string{"invalid --jwt-jwks-uri: 'https://10.1.2.3/k': must not be in a private network: 10.1.2.3"},
		},
		{
			"a URL with credentials", func(c *c) {
				c.JWTIssuer, c.JWTAudience, c.JWKSURI = new(idp), new("smg"), new("https://u:pw@idp.example/k")
			},
			[]string{"invalid --jwt-jwks-uri: 'https://***@idp.example/k': must not carry credentials"},
		},
		{"roles", func(c *c) { c.JWTRoleMapping = []string{"a=b=admin", "dev team=User"} }, nil},
		{"a role that there is not", func(c *c) { c.JWTRoleMapping = []string{"a=root"} }, []string{"invalid --jwt-role-mapping: 'a=root': must be NAME=admin or NAME=user"}},
		{"a role of nobody", func(c *c) { c.JWTRoleMapping = []string{"=admin"} }, []string{"invalid --jwt-role-mapping: '=admin': must be NAME=admin or NAME=user"}},
		{"a claim without a name", func(c *c) { c.JWTRoleClaim = "" }, []string{"invalid --jwt-role-claim: '': must not be empty"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			tt.set(cfg)
			require.Equal(t, tt.want, sentences(cfg.Validate()))
		})
	}
}
