package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// The keys of these tests. They are looked for in logs and answers, so they are like nothing else there.
const (
	sharedKey   = "shared-4b1e0c"
	tenantKey   = "tenant-a92f73"
	adminKey    = "admin-61d8ee"
	userKey     = "user-0f3ab5"
	unknownKey  = "wrong-c7714d"
	someWorkers = "engine-5e2d90"
)

// world is all that gateways with authentication have to do with: an issuer of tokens, and the credentials that there are.
type world struct {
	issuer      string
	signer      jose.Signer
	credentials map[string][]string // header and value, by name
}

func newWorld(t testing.TB) *world {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "k", Algorithm: "ES256", Use: "sig", Key: key.Public()}}})
	}))
	t.Cleanup(idp.Close)
	w := &world{issuer: idp.URL}
	w.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	require.NoError(t, err)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	w.credentials = map[string][]string{
		"nothing": nil, "a wrong key": bearer(unknownKey), "`x-api-key`": {"X-Api-Key", sharedKey}, "`Basic`": {"Authorization", "Basic " + sharedKey},
		"API key": bearer(sharedKey), "tenant key": bearer(tenantKey), "admin's key": bearer(adminKey), "user's key": bearer(userKey),
		"admin's token": bearer(w.token(t, "ada", "admin", time.Hour)), "user's token": bearer(w.token(t, "bob", "user", time.Hour)),
		"expired token": bearer(w.token(t, "ada", "admin", -time.Hour)),
	}
	return w
}

func credentialNames() []string {
	return []string{
		"nothing", "a wrong key", "`x-api-key`", "`Basic`", "API key", "tenant key", "admin's key", "user's key", "admin's token", "user's token", "expired token",
	}
}

func (w *world) token(t testing.TB, subject, role string, lifetime time.Duration) string {
	t.Helper()
	token, err := jwt.Signed(w.signer).Claims(map[string]any{
		"iss": w.issuer, "aud": "smg", "sub": subject, "roles": role, "exp": time.Now().Add(lifetime).Unix(),
	}).Serialize()
	require.NoError(t, err)
	return token
}

// setting is one way to configure authentication.
type setting struct {
	title string
	set   func(c *Config)
}

func (w *world) settings() []setting {
	shared := func(c *Config) { c.APIKey = new(sharedKey) }
	tenants := func(c *Config) { c.TenantAPIKeys = []string{"acme:" + tenantKey} }
	operators := func(c *Config) {
		c.ControlPlaneAPIKeys = []string{"ops:Ops:admin:" + adminKey, "ci:CI:user:" + userKey}
	}
	tokens := func(c *Config) {
		c.JWTIssuer, c.JWTAudience, c.JWKSURI = new(w.issuer), new("smg"), new(w.issuer+"/keys")
	}
	all := func(sets ...func(*Config)) func(*Config) {
		return func(c *Config) {
			for _, set := range sets {
				set(c)
			}
		}
	}
	return []setting{
		{"nothing", all()},
		{"API key", shared},
		{"tenant keys", tenants},
		{"API key, tenant keys", all(shared, tenants)},
		{"operators' keys", operators},
		{"tokens", tokens},
		{"API key, operators' keys", all(shared, operators)},
		{"API key, tokens", all(shared, tokens)},
		{"all of them", all(shared, tenants, operators, tokens)},
	}
}

// guarded is a gateway inside of a test's server.
type guarded struct {
	gateway *Gateway
	url     string
	log     *lines
}

// gateway serves a gateway without workers until the test ends.
func (w *world) gateway(t testing.TB, s setting) *guarded {
	t.Helper()
	cfg := Default()
	cfg.DisableRetries = true
	s.set(cfg)
	g := &guarded{log: &lines{}}
	logs, err := telemetry.NewLogger(telemetry.LogOptions{Level: slog.LevelDebug, JSON: true, Stdout: g.log, Env: func(string) string { return "" }})
	require.NoError(t, err)
	g.gateway, err = New(cfg, logs.Target(telemetry.Target))
	require.NoError(t, err)
	srv := hosted(t, g.gateway.Handler())
	g.url = srv.URL
	t.Cleanup(func() { g.gateway.Close(context.Background()) })
	return g
}

// ask asks a route with a credential.
func (g *guarded) ask(t testing.TB, route string, credential []string) response {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	path = strings.NewReplacer("{worker_id}", "00000000-0000-4000-8000-000000000000", "{model}", "m1").Replace(path)
	body := ""
	if method != http.MethodGet {
		body = "{}"
	}
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if credential != nil {
		req.Header.Set(credential[0], credential[1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return response{resp, string(read), err}
}
