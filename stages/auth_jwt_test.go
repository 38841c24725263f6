package stages

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// workers.md, section 20: algorithms, key by id, the algorithm is that of the key.
func TestTokensAreVerified(t *testing.T) {
	i := startIssuer(t,
		published("rs256", "RS256", rsaKey().Public()), published("rs384", "RS384", rsaKey().Public()), published("rs512", "RS512", rsaKey().Public()),
		published("es256", "ES256", p256().Public()), published("es384", "ES384", p384().Public()),
		published("any", "", rsaKey().Public()), published("curve", "", p384().Public()), published("weak", "RS256", weakRSA().Public()),
		published("ps256", "PS256", rsaKey().Public()), jose.JSONWebKey{KeyID: "enc", Use: "enc", Key: rsaKey().Public()},
		jose.JSONWebKey{KeyID: "secret", Algorithm: "HS256", Key: []byte(strings.Repeat("s", 64))})
	j := i.taker(t, nil)
	secret := []byte(strings.Repeat("s", 64))
	tests := []struct {
		name, id string
		alg      jose.SignatureAlgorithm
		key      any
		want     error
	}{
		{"RS256", "rs256", jose.RS256, rsaKey(), nil},
		{"RS384", "rs384", jose.RS384, rsaKey(), nil},
		{"RS512", "rs512", jose.RS512, rsaKey(), nil},
		{"ES256", "es256", jose.ES256, p256(), nil},
		{"ES384", "es384", jose.ES384, p384(), nil},
		{"a key that names no algorithm takes those of its kind", "any", jose.RS384, rsaKey(), nil},
		{"a curve names its algorithm", "curve", jose.ES384, p384(), nil},
		{"another algorithm than the key's", "rs256", jose.RS512, rsaKey(), errOtherAlg},
		{"an algorithm of another kind of key", "es256", jose.RS256, rsaKey(), errOtherAlg},
		{"the algorithm of another curve", "curve", jose.ES256, p256(), errOtherAlg},
		{"an algorithm that is not accepted", "ps256", jose.PS256, rsaKey(), errMalformed},
		{"a shared secret, which whoever knows the public key has", "rs256", jose.HS256, secret, errMalformed},
		{"a secret among the keys", "secret", jose.HS256, secret, errMalformed},
		{"another key of the same kind", "rs256", jose.RS256, otherRSA(), errBadSignature},
		{"a key that there is not", "nope", jose.RS256, rsaKey(), errUnknownKey},
		{"a key that is for something else", "enc", jose.RS256, rsaKey(), errUnknownKey},
		{"a key that is too short", "weak", jose.RS256, weakRSA(), errUnknownKey},
		{"no key at all", "", jose.RS256, rsaKey(), errNoKeyID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := j.Verify(sign(t, tt.alg, tt.id, tt.key, i.valid(nil)))
			require.Equal(t, tt.want, err)
			if err == nil {
				require.Equal(t, Principal{"ada", "jwt", RoleAdmin}, p)
			}
		})
	}
	t.Run("no signature", func(t *testing.T) {
		text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		claims := fmt.Sprintf(`{"iss":%q,"aud":"smg","sub":"ada","exp":%d,"roles":"admin"}`, i.URL, time.Now().Add(time.Hour).Unix())
		for _, head := range []string{`{"alg":"none","kid":"rs256"}`, `{"alg":"None","kid":"rs256"}`, `{"kid":"rs256"}`, `{"alg":"RS256","kid":"rs256"}`} {
			_, err := j.Verify(text(head) + "." + text(claims) + ".")
			require.Error(t, err, head)
		}
	})
	t.Run("a key that the token brings along", func(t *testing.T) {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: otherRSA()}, (&jose.SignerOptions{EmbedJWK: true}).WithHeader("kid", "rs256"))
		require.NoError(t, err)
		signed, err := signer.Sign([]byte(fmt.Sprintf(`{"iss":%q,"aud":"smg","exp":%d}`, i.URL, time.Now().Add(time.Hour).Unix())))
		require.NoError(t, err)
		token, err := signed.CompactSerialize()
		require.NoError(t, err)
		_, err = j.Verify(token)
		require.Error(t, err)
	})
}

// workers.md, section 20: iss, aud, exp and nbf, with 30 s of leeway.
func TestClaimsOfTokens(t *testing.T) {
	i := startIssuer(t, published("k", "ES256", p256().Public()))
	j := i.taker(t, nil)
	now := time.Now()
	j.now = func() time.Time { return now }
	at := func(seconds int) int64 { return now.Unix() + int64(seconds) }
	tests := []struct {
		name    string
		changes map[string]any
		want    error
	}{
		{"nothing is wrong", nil, nil},
		{"the audience may be one of several", map[string]any{"aud": []string{"x", "smg"}}, nil},
		{"another audience", map[string]any{"aud": "x"}, errOtherAudience},
		{"no audience", map[string]any{"aud": nil}, errOtherAudience},
		{"another issuer", map[string]any{"iss": "https://evil.example"}, errOtherIssuer},
		{"no issuer", map[string]any{"iss": nil}, errOtherIssuer},
		{"an issuer with a slash more", map[string]any{"iss": i.URL + "/"}, errOtherIssuer},
		{"no end", map[string]any{"exp": nil}, errNoExpiry},
		{"an end that is a text", map[string]any{"exp": "tomorrow"}, errMalformed},
		{"ended 29 seconds ago", map[string]any{"exp": at(-29)}, nil},
		{"ended 32 seconds ago", map[string]any{"exp": at(-32)}, errExpired},
		{"begins in 29 seconds", map[string]any{"nbf": at(29)}, nil},
		{"begins in 32 seconds", map[string]any{"nbf": at(32)}, errNotYet},
		{"made in the future, which is not asked", map[string]any{"iat": at(3600)}, nil},
		{"no subject", map[string]any{"sub": nil}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := j.Verify(sign(t, jose.ES256, "k", p256(), i.valid(tt.changes)))
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tt.want, err)
		})
	}
}

// workers.md, section 20: the role.
func TestRolesOfTokens(t *testing.T) {
	mapping := map[string]Role{"platform": RoleAdmin, "dev": RoleUser}
	list := func(values ...any) []any { return values }
	tests := []struct {
		name   string
		claim  string
		roles  map[string]Role
		claims map[string]any
		want   Role
	}{
		{"a text", "roles", nil, map[string]any{"roles": "admin"}, RoleAdmin},
		{"in any case", "roles", nil, map[string]any{"roles": "Admin"}, RoleAdmin},
		{"one of a list", "roles", nil, map[string]any{"roles": list("x", "admin")}, RoleAdmin},
		{"what is no text counts for nothing", "roles", nil, map[string]any{"roles": list(1, nil, list("admin"))}, RoleUser},
		{"a number", "roles", nil, map[string]any{"roles": 1}, RoleUser},
		{"another role", "roles", nil, map[string]any{"roles": "administrator"}, RoleUser},
		{"no claim", "roles", nil, nil, RoleUser},
		{"another claim, if the configured one is absent", "smg", nil, map[string]any{"groups": list("admin")}, RoleAdmin},
		{"the first of the others counts", "smg", nil, map[string]any{"role": "user", "roles": "admin"}, RoleUser},
		{"not if the configured one is there", "smg", nil, map[string]any{"smg": "user", "role": "admin"}, RoleUser},
		{"nor if it is empty", "smg", nil, map[string]any{"smg": list(), "role": "admin"}, RoleUser},
		{"what is mapped to admin", "roles", mapping, map[string]any{"roles": list("dev", "platform")}, RoleAdmin},
		{"what is mapped to user", "roles", mapping, map[string]any{"roles": "dev"}, RoleUser},
		{"with a mapping the names of roles mean nothing", "roles", mapping, map[string]any{"roles": "admin"}, RoleUser},
		{"mapped names have a case", "roles", mapping, map[string]any{"roles": "Platform"}, RoleUser},
	}
	i := startIssuer(t, published("k", "ES256", p256().Public()))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := i.taker(t, func(s *JWTSettings) { s.RoleClaim, s.Roles = tt.claim, tt.roles })
			claims := i.valid(map[string]any{"roles": nil})
			for name, value := range tt.claims {
				claims[name] = value
			}
			p, err := j.Verify(sign(t, jose.ES256, "k", p256(), claims))
			require.NoError(t, err)
			require.Equal(t, tt.want, p.Role)
		})
	}
}

// workers.md, section 20: the order of tokens and keys; "a.b.c" that is a configured key too, tokens on -> 401.
func TestTokensComeBeforeKeys(t *testing.T) {
	i := startIssuer(t, published("k", "ES256", p256().Public()))
	j := i.taker(t, nil)
	of := func() *Operators {
		o := operatorsOf(t, "shared", "ops:Ops:admin:ka", "dots:Dots:admin:a.b.c")
		o.TakeTokens(j)
		return o
	}
	token := func(changes map[string]any) string {
		return "Bearer " + sign(t, jose.ES256, "k", p256(), i.valid(changes))
	}
	admin := Principal{"ada", "jwt", RoleAdmin}
	require.Equal(t, ruling{principal: admin}, asking(t, of(), token(nil)))
	require.Equal(t, ruling{principal: Principal{"ops", "api_key", RoleAdmin}}, asking(t, of(), "Bearer ka"))
	const malformed = "Invalid JWT: it is malformed, or its algorithm is not accepted"
	require.Equal(t, ruling{401, malformed, anonymous, malformed}, asking(t, of(), "Bearer a.b.c"))
	const role = "Admin role required for control plane access"
	require.Equal(t, ruling{403, role, Principal{"ada", "jwt", RoleUser}, role}, asking(t, of(), token(map[string]any{"roles": "user"})))
	const shared = "Invalid authentication token"
	require.Equal(t, ruling{401, shared, anonymous, shared}, asking(t, of(), "Bearer shared"))
	require.True(t, of().Owns("ka"))
	require.True(t, of().Owns(strings.TrimPrefix(token(map[string]any{"exp": 1}), "Bearer ")))
	require.False(t, of().Owns(strings.TrimPrefix(token(map[string]any{"iss": "x"}), "Bearer ")))
	require.False(t, of().Owns("a.b.c."))

	t.Run("tokens alone close the routes too", func(t *testing.T) {
		o := operatorsOf(t, "shared")
		o.TakeTokens(j)
		require.Equal(t, 401, asking(t, o, "Bearer shared").status)
		require.Zero(t, asking(t, o, token(nil)).status)
	})
	t.Run("an issuer that cannot be asked leaves them closed, and keys work", func(t *testing.T) {
		gone := startIssuer(t)
		gone.set(func(i *issuer) { i.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) } })
		o := operatorsOf(t, "", "ops:Ops:admin:ka")
		o.TakeTokens(gone.taker(t, nil))
		const text = "Invalid JWT: the keys of the issuer cannot be read"
		require.Equal(t, ruling{401, text, anonymous, text + ": " + gone.URL + "/keys answered 500"}, asking(t, o, token(nil)))
		require.Zero(t, asking(t, o, "Bearer ka").status)
	})
}

// Whatever is sent as a token, it is refused in words that repeat nothing of it.
func FuzzToken(f *testing.F) {
	i := startIssuer(f, published("k", "ES256", p256().Public()))
	j := i.taker(f, nil)
	j.keys.now = func() time.Time { return time.Unix(1<<33, 0) } // the issuer is asked once
	valid := sign(f, jose.ES256, "k", p256(), i.valid(map[string]any{"exp": 1}))
	head, rest, _ := strings.Cut(valid, ".")
	for _, token := range []string{valid, "a.b.c", "..", head + "..", head + "." + rest + ".", "eyJ.eyJ.x", "", strings.Repeat(".", 1<<10)} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		_, err := j.Verify(token)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 80)
		_ = j.claimed(token)
	})
}
