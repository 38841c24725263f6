package stages

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// workers.md, section 20: keys are kept for 3600 s, and asked for again when a token names one that is not among them.
func TestKeysOfAnIssuerAreKept(t *testing.T) {
	i := startIssuer(t, published("old", "ES256", p256().Public()))
	j := i.taker(t, nil)
	now := time.Now()
	j.keys.now = func() time.Time { return now }
	token := func(id string, key any, alg jose.SignatureAlgorithm) error {
		_, err := j.Verify(sign(t, alg, id, key, i.valid(nil)))
		return err
	}
	for range 3 {
		require.NoError(t, token("old", p256(), jose.ES256))
	}
	require.EqualValues(t, 1, i.asked.Load(), "one question for all tokens")

	i.set(func(i *issuer) { i.keys = []jose.JSONWebKey{published("new", "ES384", p384().Public())} })
	require.Equal(t, errUnknownKey, token("new", p384(), jose.ES384), "the issuer was asked a moment ago")
	require.EqualValues(t, 1, i.asked.Load())
	now = now.Add(keysPause)
	require.NoError(t, token("new", p384(), jose.ES384), "a key that is not known makes it ask again")
	require.Equal(t, errUnknownKey, token("old", p256(), jose.ES256), "the one that was taken back counts no more")
	require.EqualValues(t, 2, i.asked.Load())

	now = now.Add(keysLifetime)
	i.set(func(i *issuer) { i.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) } })
	require.ErrorContains(t, token("new", p384(), jose.ES384), errNoKeys.Error(), "keys are not kept longer, whatever the issuer does")
	i.set(func(i *issuer) { i.answer = nil })
	now = now.Add(keysPause)
	require.NoError(t, token("new", p384(), jose.ES384))
}

// However many tokens name keys that there are not, the issuer is asked once.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	i := startIssuer(t, published("k", "ES256", p256().Public()))
	j := i.taker(t, nil)
	now := time.Now()
	j.keys.now = func() time.Time { return now }
	var all sync.WaitGroup
	for n := range 32 {
		bad := sign(t, jose.ES256, fmt.Sprint("k", n), p256(), i.valid(nil))
		all.Go(func() { _, _ = j.Verify(bad) })
	}
	all.Wait()
	require.EqualValues(t, 1, i.asked.Load())
}

// workers.md, section 20: discovery; no redirects, at most 1 MiB.
func TestKeysOfAnIssuerAreRead(t *testing.T) {
	const usable = `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	elsewhere := httptest.NewServer(says(200, usable))
	t.Cleanup(elsewhere.Close)
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // part of the error; "" if the keys are read
	}{
		{"keys", says(200, usable), ""},
		{"a key that is of no use is left out", says(200, strings.Replace(usable, `[`, `[{"kty":"new"},{"kty":"oct","k":"AA","kid":"k"},3,null,{"kty":"EC","crv":"P-256","kid":"k","x":"AA","y":"AA"},`, 1)), ""},
		{"no key", says(200, `{"keys":[]}`), "no key among them"},
		{"none that is of use", says(200, `{"keys":[{"kty":"oct","k":"AA","kid":"k"}]}`), "no key among them"},
		{"no JSON", says(200, `<html>`), "not JSON of the right shape"},
		{"a list", says(200, `[]`), "not JSON of the right shape"},
		{"a failure", says(500, usable), "answered 500"},
		{"a redirect, which is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "answered 302"},
		{"exactly 1 MiB", says(200, usable+strings.Repeat(" ", 1<<20-len(usable))), ""},
		{"more than 1 MiB", says(200, usable+strings.Repeat(" ", 1<<20-len(usable)+1)), "more than 1048576 bytes"},
		{"no answer", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	i := startIssuer(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i.set(func(i *issuer) { i.answer = tt.answer })
			for _, discovered := range []bool{false, true} {
				j := i.taker(t, func(s *JWTSettings) {
					if discovered {
						s.KeysURL = ""
					}
				})
				err := j.keys.refresh()
				if tt.want != "" {
					require.ErrorContains(t, err, tt.want)
					require.Nil(t, j.keys.current())
					continue
				}
				require.NoError(t, err)
				require.Len(t, j.keys.current().byID, 1)
			}
		})
	}
	for name, said := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"a document of another issuer": {map[string]any{"issuer": "https://evil.example"}, "is of another issuer"},
		"keys in a private network":    {map[string]any{"jwks_uri": "https://10.0.0.1/keys"}, "must not be in a private network"},
		"keys without encryption":      {map[string]any{"jwks_uri": "http://idp.example/keys"}, "must begin with https://"},
		"no keys":                      {map[string]any{"jwks_uri": ""}, "must be an absolute URL"},
		"keys that are a number":       {map[string]any{"jwks_uri": 1}, "not JSON of the right shape"},
	} {
		t.Run(name, func(t *testing.T) {
			i.set(func(i *issuer) { i.claims = said.claims })
			require.ErrorContains(t, i.taker(t, func(s *JWTSettings) { s.KeysURL = "" }).keys.refresh(), said.want)
		})
	}
}

// What is wrong with an issuer is known before the first token comes; and it is no reason not to serve.
func TestKeysAreAskedForWhenTheGatewayStarts(t *testing.T) {
	i := startIssuer(t, published("k", "ES256", p256().Public()))
	j := i.taker(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan struct{}), make(chan error)
	go func() { over <- j.Run(ctx, func() { close(ready) }) }()
	<-ready
	require.Eventually(t, func() bool { return j.keys.current() != nil }, patience, time.Millisecond)
	cancel()
	require.NoError(t, <-over)
}

func FuzzIssuerKeys(f *testing.F) {
	for _, text := range []string{
		`{"keys":[]}`, `{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}`, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"","y":""}]}`,
		`{"keys":[{"kty":"RSA","kid":"k","n":"","e":""}]}`, `{"keys":null}`, `{"keys":[null,1,{"x5c":["AA"]}]}`, `[`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseKeys(text)
		if err != nil {
			require.Nil(t, set)
			return
		}
		for id, keys := range set.byID {
			require.NotEmpty(t, id)
			for i := range keys {
				require.True(t, keys[i].IsPublic())
			}
		}
	})
}
