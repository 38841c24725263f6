package server

import (
	"strings"

	"github.com/smg-go/smg/stages"
)

// JWTConfig says which tokens of an identity provider open the routes for operators.
type JWTConfig struct {
	JWTIssuer      *string  `name:"jwt-issuer" variable:"JWT_ISSUER" placeholder:"URL" help:"Who makes the tokens: their claim iss. Goes with --jwt-audience."`
	JWTAudience    *string  `name:"jwt-audience" variable:"JWT_AUDIENCE" placeholder:"TEXT" help:"Whom the tokens are for: in their claim aud."`
	JWKSURI        *string  `name:"jwt-jwks-uri" variable:"JWT_JWKS_URI" placeholder:"URL" help:"Where the issuer's keys are: an https:// URL outside of private networks (http:// to localhost). Unset: the issuer is asked at /.well-known/openid-configuration."`
	JWTRoleClaim   string   `name:"jwt-role-claim" default:"roles" placeholder:"NAME" help:"Claim that says the role: a text or a list of them. Where it is absent, the first of role, roles, groups and group."`
	JWTRoleMapping []string `name:"jwt-role-mapping" type:"keys" placeholder:"NAME=ROLE ..." help:"What the issuer's names of roles stand for: admin or user. Given, names that are not in it are user."`
}

func defaultJWT() JWTConfig { return JWTConfig{JWTRoleClaim: "roles"} }

func (c *JWTConfig) check(found *violations) {
	for _, f := range []struct {
		flag  string
		value *string
	}{{"--jwt-issuer", c.JWTIssuer}, {"--jwt-audience", c.JWTAudience}, {"--jwt-jwks-uri", c.JWKSURI}} {
		if f.value != nil && strings.TrimSpace(*f.value) == "" {
			found.add(f.flag, *f.value, "must not be empty")
		}
	}
	c.checkTogether(found)
	if c.JWTRoleClaim == "" {
		found.add("--jwt-role-claim", c.JWTRoleClaim, "must not be empty")
	}
	for _, entry := range c.JWTRoleMapping {
		if _, _, ok := mapped(entry); !ok {
			found.add("--jwt-role-mapping", entry, "must be NAME=admin or NAME=user")
		}
	}
}

// checkTogether: half of what tokens need would leave the routes open that they are to guard.
func (c *JWTConfig) checkTogether(found *violations) {
	switch {
	case c.JWTIssuer != nil && c.JWTAudience == nil:
		found.add("--jwt-issuer", *c.JWTIssuer, "needs --jwt-audience too")
	case c.JWTIssuer == nil && c.JWTAudience != nil:
		found.add("--jwt-audience", *c.JWTAudience, "needs --jwt-issuer too")
	case c.JWTIssuer == nil && c.JWKSURI != nil:
		found.add("--jwt-jwks-uri", *c.JWKSURI, "needs --jwt-issuer and --jwt-audience too")
	case c.JWTIssuer == nil:
		return
	}
	flag, asked := "--jwt-issuer", c.JWTIssuer
	if c.JWKSURI != nil {
		flag, asked = "--jwt-jwks-uri", c.JWKSURI
	}
	if asked == nil || strings.TrimSpace(*asked) == "" {
		return
	}
	if err := stages.CheckIssuerURL(*asked); err != nil {
		found.add(flag, withoutCredentials(*asked), err.Error())
	}
}

// mapped reads NAME=ROLE. The name may have "=" in it.
func mapped(entry string) (name string, role stages.Role, ok bool) {
	at := strings.LastIndexByte(entry, '=')
	if at <= 0 {
		return "", stages.RoleUser, false
	}
	role, known := stages.ParseRole(entry[at+1:])
	return entry[:at], role, known
}

// settings are those of the taker of tokens; ok is false if none are taken.
func (c *JWTConfig) settings() (s stages.JWTSettings, ok bool) {
	if c.JWTIssuer == nil || c.JWTAudience == nil {
		return s, false
	}
	s = stages.JWTSettings{Issuer: *c.JWTIssuer, Audience: *c.JWTAudience, RoleClaim: c.JWTRoleClaim, Roles: map[string]stages.Role{}}
	if c.JWKSURI != nil {
		s.KeysURL = *c.JWKSURI
	}
	for _, entry := range c.JWTRoleMapping {
		if name, role, ok := mapped(entry); ok {
			s.Roles[name] = role
		}
	}
	return s, true
}
