package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
)

// withKeys starts a gateway that asks for keys, in front of an engine that asks for one too.
func withKeys(t *testing.T, configure func(*Config)) (*running, *engine.Running) {
	t.Helper()
	e := engine.Start(t, engine.Config{APIKey: sharedKey})
	return start(t, func(c *Config) {
		c.APIKey, c.TenantAPIKeys = new(sharedKey), []string{"acme:" + tenantKey}
		if configure != nil {
			configure(c)
		}
	}, e), e
}

// http-dataplane.md, section 12.1; DECISIONS 39: workers that are named at start have the gateway's key, and see it whatever the
// caller has sent.
func TestWorkersGetTheirOwnKey(t *testing.T) {
	g, e := withKeys(t, nil)
	for _, rq := range []struct{ method, path, body string }{
		{http.MethodPost, chatPath, chat},
		{http.MethodPost, chatPath, chats},
		{http.MethodPost, "/generate", `{"text":"hi"}`},
		{http.MethodPost, "/v1/messages", `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{http.MethodGet, "/get_server_info", ""},
		{http.MethodGet, "/health_generate", ""},
	} {
		for _, key := range []string{sharedKey, tenantKey} {
			e.ClearRequests()
			require.Equal(t, http.StatusOK, g.do(t, rq.method, rq.path, rq.body, "Authorization", "Bearer "+key).StatusCode, rq.path)
			seen := asked(e)
			require.Len(t, seen, 1)
			require.Equal(t, []string{"Bearer " + sharedKey}, seen[0].Values("Authorization"), rq.path)
		}
	}
	t.Run("on a public route a wrong key, or none, is not the worker's either", func(t *testing.T) {
		for _, lines := range [][]string{nil, {"Authorization", "Bearer " + unknownKey}, {"Authorization", "Basic " + unknownKey}} {
			e.ClearRequests()
			require.Equal(t, http.StatusOK, g.do(t, http.MethodGet, "/get_server_info", "", lines...).StatusCode)
			require.Equal(t, []string{"Bearer " + sharedKey}, asked(e)[0].Values("Authorization"))
		}
	})
	t.Run("who is refused calls no worker", func(t *testing.T) {
		for _, lines := range [][]string{nil, {"Authorization", "Bearer x"}, {"Authorization", "Basic " + sharedKey}, {"x-api-key", sharedKey}} {
			e.ClearRequests()
			require.Equal(t, http.StatusUnauthorized, g.post(t, chatPath, chat, lines...).StatusCode)
			require.Empty(t, asked(e))
		}
	})
	t.Run("one that is added later has the key of its spec alone", func(t *testing.T) {
		other := engine.Start(t, engine.Config{})
		spec := `{"url":"` + other.URL + `"}`
		require.Equal(t, http.StatusAccepted, g.post(t, "/workers", spec, "Authorization", "Bearer "+sharedKey).StatusCode)
		require.Eventually(t, func() bool { return g.gateway.registry.Len() == 2 }, patience, patience/10_000)
		for _, r := range other.Requests() {
			require.Empty(t, r.Values("Authorization"), r.Head[0])
		}
		require.Equal(t, 1, count(g.Log.String(), "a worker was added without an api_key")) // workers.md, section 2
	})
}

// DECISIONS 39: without keys for callers what they send goes to the worker, but for what is an operator's.
func TestACallersOwnKeyPassesThrough(t *testing.T) {
	w := newWorld(t)
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) {
		c.ControlPlaneAPIKeys = []string{"ops:Ops:admin:" + adminKey}
		c.JWTIssuer, c.JWTAudience, c.JWKSURI = new(w.issuer), new("smg"), new(w.issuer+"/keys")
	}, e)
	for name, tt := range map[string]struct {
		sent string
		want []string
	}{
		"a key of the caller":     {"Bearer " + callersKey, []string{"Bearer " + callersKey}},
		"another scheme":          {"Basic " + callersKey, []string{"Basic " + callersKey}},
		"an operator's key":       {"Bearer " + adminKey, nil},
		"an operator's token":     {w.credentials["admin's token"][1], nil},
		"an old operator's token": {w.credentials["expired token"][1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{chatPath, "/get_server_info"} {
				e.ClearRequests()
				body := map[string]string{chatPath: chat}[path]
				require.Equal(t, http.StatusOK, g.do(t, methodFor(body), path, body, "Authorization", tt.sent).StatusCode)
				require.Equal(t, tt.want, asked(e)[0].Values("Authorization"))
			}
		})
	}
}

// http-dataplane.md, section 12.2: only tenant keys configured -> GET /workers with a valid tenant key -> 401; chat with it -> 200.
func TestTenantsAreNoOperators(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.TenantAPIKeys = []string{"acme:" + tenantKey} }, e)
	bearer := []string{"Authorization", "Bearer " + tenantKey}
	require.Equal(t, http.StatusUnauthorized, g.do(t, http.MethodGet, "/workers", "", bearer...).StatusCode)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, bearer...).StatusCode)
}

// DECISIONS 25 and 26: the answer to who may not ask is in the form that the route's clients know.
func TestFormsOfRefusals(t *testing.T) {
	g, _ := withKeys(t, nil)
	const missing = "Missing API key: send it as `Authorization: Bearer \\u003ckey\\u003e`"
	openai := `{"error":{"message":"` + missing + `","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`
	for _, tt := range []struct{ method, path, body, want, realm string }{
		{http.MethodPost, chatPath, chat, openai, "smg"},
		{http.MethodGet, "/workers", "", openai, "control-plane"},
		{http.MethodPost, "/explain", chat, openai, "control-plane"},
		{http.MethodPost, "/v1/messages", chat, `{"type":"error","error":{"type":"authentication_error","message":"` + missing + `"},"request_id":"r-1"}`, "smg"},
	} {
		r := g.do(t, tt.method, tt.path, tt.body, "X-Request-Id", "r-1")
		require.Equal(t, http.StatusUnauthorized, r.StatusCode)
		require.Equal(t, tt.want, r.Body)
		require.Equal(t, "invalid_api_key", r.Header.Get("X-Smg-Error-Code"))
		require.Equal(t, "r-1", r.Header.Get("X-Request-Id"))
		require.Equal(t, `Bearer realm="`+tt.realm+`"`, r.Header.Get("WWW-Authenticate"))
	}
}

// A route that is listed for operators and has not their guard, or has that of others, is not served.
func TestARouteHasTheGuardOfItsTier(t *testing.T) {
	g := &guards{keys: &stages.APIKeys{}, operators: &stages.Operators{}, open: true}
	chain := func(s ...pipeline.Stage) *pipeline.Chain {
		c, err := pipeline.Assemble("GET /x", append(s, pipeline.StageFunc("last", pipeline.Contract{}, nil))...)
		require.NoError(t, err)
		return c
	}
	caller, operator := stages.Auth(g.keys), stages.ControlAuth(g.operators, nil)
	for _, tt := range []struct {
		name string
		tier tier
		c    *pipeline.Chain
		fine bool
	}{
		{"nothing before a public route", public, chain(), true},
		{"a key before a public route", public, chain(caller), false},
		{"a key before a route for callers", serving, chain(caller), true},
		{"nothing before one", serving, chain(), false},
		{"the guard of operators before one", serving, chain(operator), false},
		{"it belongs to those for operators", control, chain(operator), true},
		{"nothing before one for operators", control, chain(), false},
		{"both before one", control, chain(caller, operator), false},
	} {
		_, err := g.fit(tt.tier, tt.c)
		require.Equal(t, tt.fine, err == nil, tt.name)
	}
}

// http-dataplane.md, section 11.2; telemetry.md, section 6.1
func TestTheTenantIsInTheSpan(t *testing.T) {
	for name, tt := range map[string]struct {
		configure func(*Config)
		sent      []string
		want      string
	}{
		"of a key":      {func(c *Config) { c.TenantAPIKeys = []string{"acme:" + tenantKey} }, []string{"Authorization", "Bearer " + tenantKey}, "auth:acme"},
		"of a header":   {func(c *Config) { c.TrustTenantHeader = true }, []string{"x-smg-tenant-id", " b "}, "header:b"},
		"of an address": {func(*Config) {}, []string{"x-smg-tenant-id", "b"}, "ip:127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			g, c := traced(t, tt.configure, engine.Start(t, engine.Config{}))
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, tt.sent...).StatusCode)
			require.Equal(t, tt.want, attributes(c.server(t))["smg.tenant"])
		})
	}
}

// Whoever may ask for an explanation is told the whole of it: the chain of the route that is explained asks for no key again.
func TestOperatorsAreToldWhatWouldHappen(t *testing.T) {
	g, e := withKeys(t, func(c *Config) { c.ControlPlaneAPIKeys = []string{"ops:Ops:admin:" + adminKey} })
	e.ClearRequests()
	require.Equal(t, http.StatusUnauthorized, g.post(t, "/explain", chat, "Authorization", "Bearer "+sharedKey).StatusCode)
	r := g.post(t, "/explain", chat, "Authorization", "Bearer "+adminKey)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Contains(t, r.Body, `"policy":"round_robin"`)
	require.Contains(t, r.Body, e.URL)
	require.Empty(t, asked(e))
}

// http-dataplane.md, section 12.4: a preflight needs no key; what follows it does.
func TestAPreflightNeedsNoKey(t *testing.T) {
	g, _ := withKeys(t, func(c *Config) { c.CORSAllowedOrigins = []string{"https://app.example"} })
	r := g.sent(t, http.MethodOptions, chatPath, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization")
	require.Equal(t, http.StatusNoContent, r.StatusCode)
	require.Equal(t, http.StatusUnauthorized, g.post(t, chatPath, chat, "Origin", "https://app.example").StatusCode)
}

// A body that is too large is refused before anybody asks who sends it; one that is not read does not disturb the next request.
func TestWhoIsRefusedHasNotBeenRead(t *testing.T) {
	g, e := withKeys(t, func(c *Config) { c.MaxPayloadSize = 1 << 20 })
	require.Equal(t, http.StatusRequestEntityTooLarge, g.post(t, chatPath, chatOf(1<<21)).StatusCode)
	e.ClearRequests()
	for range 3 {
		require.Equal(t, http.StatusUnauthorized, g.post(t, chatPath, chatOf(1<<19)).StatusCode)
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, "Authorization", "Bearer "+sharedKey).StatusCode)
	}
	require.Len(t, asked(e), 3)
}
