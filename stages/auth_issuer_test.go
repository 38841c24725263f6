package stages

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// The keys of the issuers of these tests, made once: it takes time.
var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	weakRSA  = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 1024); return k })
	p256     = sync.OnceValue(func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	p384     = sync.OnceValue(func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader); return k })
)

// issuer makes tokens, and serves the keys to verify them with.
type issuer struct {
	URL   string
	asked atomic.Int64 // for keys

	mu     sync.Mutex
	answer http.HandlerFunc // in the place of the keys; nil: the keys
	keys   []jose.JSONWebKey
	claims map[string]any // of its discovery document beside the usual ones
}

// startIssuer serves an issuer until the test ends.
func startIssuer(t testing.TB, keys ...jose.JSONWebKey) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.URL = srv.URL
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer, keys, extra := i.answer, i.keys, i.claims
	i.mu.Unlock()
	if r.URL.Path == "/.well-known/openid-configuration" {
		said := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		maps.Copy(said, extra)
		_ = json.NewEncoder(w).Encode(said)
		return
	}
	i.asked.Add(1)
	if answer != nil {
		answer(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
}

// changes what the issuer answers.
func (i *issuer) set(change func(i *issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

// published is the public half of a key.
func published(id, alg string, key any) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: id, Algorithm: alg, Use: "sig", Key: key}
}

func (i *issuer) taker(t testing.TB, change func(s *JWTSettings)) *JWTs {
	t.Helper()
	s := JWTSettings{Issuer: i.URL, Audience: "smg", KeysURL: i.URL + "/keys"}
	if change != nil {
		change(&s)
	}
	j, err := NewJWTs(s, nil)
	require.NoError(t, err)
	return j
}

// sign makes a token with these claims.
func sign(t testing.TB, alg jose.SignatureAlgorithm, id string, key any, claims map[string]any) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// valid are claims that are taken, with some changed; nil takes one out.
func (i *issuer) valid(changes map[string]any) map[string]any {
	claims := map[string]any{"iss": i.URL, "aud": "smg", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{"admin"}}
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}
