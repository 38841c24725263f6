package stages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// keysOf are keys: one that is shared ("" for none), and those of tenants, as tenant and key in turn.
func keysOf(t testing.TB, shared string, tenants ...string) *APIKeys {
	t.Helper()
	keys := &APIKeys{}
	if shared != "" {
		require.NoError(t, keys.AddShared(shared))
	}
	for i := 0; i+1 < len(tenants); i += 2 {
		require.NoError(t, keys.AddTenant(tenants[i], tenants[i+1]))
	}
	return keys
}

// http-dataplane.md, sections 11.2 and 12.1; capture.md, section 2.1; DECISIONS 25
func TestAuthLetsInWhoHasAKey(t *testing.T) {
	const missing, invalid = "Missing API key: send it as `Authorization: Bearer <key>`", "Invalid API key"
	tests := []struct {
		name    string
		headers []string
		refused string // the message of the 401; "" if the request is let in
		tenant  string // a pattern
	}{
		{"the shared key", []string{"Authorization", "Bearer s"}, "", "^auth:[0-9a-f]{8}$"},
		{"a tenant's key", []string{"Authorization", "Bearer ka"}, "", "^auth:a$"},
		{"another key of the same tenant", []string{"Authorization", "Bearer ka2"}, "", "^auth:a$"},
		{"another tenant's key", []string{"Authorization", "Bearer kb"}, "", "^auth:b$"},
		{"the scheme in lower case", []string{"Authorization", "bearer s"}, "", "^auth:"},
		{"the scheme in any case", []string{"Authorization", "BeArEr s"}, "", "^auth:"},
		{"more than one space before the key", []string{"Authorization", "Bearer   s"}, "", "^auth:"},
		{"no header", nil, missing, ""},
		{"an empty header", []string{"Authorization", ""}, missing, ""},
		{"the scheme alone", []string{"Authorization", "Bearer"}, missing, ""},
		{"the scheme and blanks", []string{"Authorization", "Bearer  \t"}, missing, ""},
		{"another scheme", []string{"Authorization", "Basic s"}, missing, ""},
		{"no scheme", []string{"Authorization", "s"}, missing, ""},
		{"the key in a header of another API", []string{"X-Api-Key", "s"}, missing, ""},
		{"another key", []string{"Authorization", "Bearer x"}, invalid, ""},
		{"a key in another case", []string{"Authorization", "Bearer S"}, invalid, ""},
		{"the beginning of a key", []string{"Authorization", "Bearer k"}, invalid, ""},
		{"a key and more", []string{"Authorization", "Bearer s s"}, invalid, ""},
		{"the name of a tenant", []string{"Authorization", "Bearer a"}, invalid, ""},
		{"a long one", []string{"Authorization", "Bearer " + strings.Repeat("s", 1<<16)}, invalid, ""},
	}
	keys := keysOf(t, "s", "a", "ka", "b", "kb", "a", "ka2")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, err := chat(tt.headers...).through(t, Auth(keys), last(200, nil))
			if tt.refused != "" {
				refused := pipeline.AsError(err)
				require.Equal(t, http.StatusUnauthorized, refused.Status)
				require.Equal(t, "invalid_api_key", refused.Code)
				require.Equal(t, tt.refused, refused.Message)
				require.True(t, refused.Terminal)
				require.Equal(t, []pipeline.Field{{Name: "WWW-Authenticate", Value: `Bearer realm="smg"`}}, refused.Fields)
				require.Empty(t, x.Tenant)
				return
			}
			require.NoError(t, err)
			require.Regexp(t, tt.tenant, x.Tenant)
			require.True(t, x.Withheld)
		})
	}
}

// http-dataplane.md, section 12.1: no worker is called; section 1: nothing of the body is read either.
func TestAuthTurnsAwayBeforeAnythingIsRead(t *testing.T) {
	r := newRig(t, 1, nil)
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.After("payload_limit", Auth(keysOf(t, "s")))
	})
	c := r.ask(chat("Authorization", "Bearer x"))
	require.Equal(t, http.StatusUnauthorized, c.status)
	require.Zero(t, c.reads)
	require.Empty(t, r.engines[0].Requests())
	require.NotContains(t, c.got.String()+fmt.Sprint(r.log.records(t)), "Bearer x")
}

// DECISIONS 39: what the gateway has checked goes to no worker, in no attempt; each gets its own key.
func TestWhatWasCheckedIsNotForwarded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		guard pipeline.Stage
		sent  string
		want  []string
	}{
		{"a key", Auth(keysOf(t, "s")), "Bearer s", nil},
		{"whatever there is, where clients send keys of their own accord", Withhold(nil), "Basic x", nil},
		{"a token of the gateway's own", Withhold(func(token string) bool { return token == "own" }), "Bearer own", nil},
		{"not a token of the client's", Withhold(func(token string) bool { return token == "own" }), "Bearer theirs", []string{"Bearer theirs"}},
		{"not another scheme", Withhold(func(string) bool { return true }), "Basic theirs", []string{"Basic theirs"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, nil)
			r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.After("payload_limit", tt.guard) })
			r.engines[0].SetFaults(engine.Fault{Status: 503}) // attempts that follow are requests too
			require.Equal(t, http.StatusServiceUnavailable, r.ask(chat("Authorization", tt.sent)).status)
			seen := r.engines[0].Requests()
			require.Len(t, seen, DefaultRetrySettings().MaxAttempts)
			for _, request := range seen {
				require.Equal(t, tt.want, request.Values("Authorization"))
			}
		})
	}
}

// The keys of a gateway with many tenants cost no allocation either.
func TestAuthAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	keys := keysOf(t, "s", "a", "a-long-key-"+strings.Repeat("k", 300), "b", "kb")
	for _, token := range []string{"s", "a-long-key-" + strings.Repeat("k", 300)} {
		s, c := Auth(keys), chat("Authorization", "Bearer "+token)
		next := func(*pipeline.Exchange) error { return nil }
		x := &pipeline.Exchange{Client: c}
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = s.Handle(x, next) }))
		require.NotEmpty(t, x.Tenant)
	}
}

// http-dataplane.md, section 12.1: errors at start; they do not repeat the key.
func TestKeysThatAreOfNoUseAreRefused(t *testing.T) {
	keys := keysOf(t, "shared", "a", "key-of-a")
	tests := []struct{ name, tenant, key, want string }{
		{"an empty key", "b", "", "the key is empty"},
		{"a blank key", "b", " \t", "the key has blanks around it"},
		{"a key with a blank before it", "b", " kb", "the key has blanks around it"},
		{"a key with a line break behind it", "b", "kb\n", "the key has blanks around it"},
		{"a key that no header can carry", "b", "k\x00b", "the key has characters that no header can carry"},
		{"another tenant's key", "b", "key-of-a", "the key is given twice"},
		{"the shared key", "b", "shared", "the key is given twice"},
		{"no tenant", "", "kb", "the tenant is empty"},
		{"a tenant with a blank behind it", "b ", "kb", "the tenant has blanks around it"},
		{"a fine one", "b", "kb:with:colons", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := keys.AddTenant(tt.tenant, tt.key)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
	require.Error(t, keys.AddShared("key-of-a"))
	require.Equal(t, 3, keys.Len())
}

func BenchmarkAuth(b *testing.B) {
	tenants := []string{}
	for i := range 100 {
		tenants = append(tenants, "t", strings.Repeat("k", i+1))
	}
	s := Auth(keysOf(b, "s", tenants...))
	x, next := &pipeline.Exchange{Client: chat("Authorization", "Bearer s")}, func(*pipeline.Exchange) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Handle(x, next)
	}
}
