package stages

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	keysLifetime   = time.Hour        // of what an issuer has answered
	keysPause      = time.Second      // between questions, however many tokens name keys that there are not
	keysTimeout    = 10 * time.Second // of one question
	maxKeysBytes   = 1 << 20          // of one answer
	minRSABits     = 2048             // of a key that is taken
	discoveryPath  = "/.well-known/openid-configuration"
	discoveredName = "jwks_uri"
)

// issuerKeys are the public keys of an issuer, as it last said.
type issuerKeys struct {
	issuer, url string // url "": the issuer is asked for it
	client      *http.Client
	log         *slog.Logger
	now         func() time.Time

	known  atomic.Pointer[keySet]
	asking sync.Mutex // held while the issuer is asked
	asked  time.Time  // when it last was, whatever came of it
	failed error      // what came of it
}

// keySet is one answer.
type keySet struct {
	byID    map[string][]jose.JSONWebKey
	fetched time.Time
}

// named are the keys with an id. The error is errUnknownKey, or wraps the reason why there are no keys.
func (k *issuerKeys) named(id string) ([]jose.JSONWebKey, error) {
	if set := k.current(); set != nil && set.byID[id] != nil {
		return set.byID[id], nil
	}
	err := k.refresh()
	switch set := k.current(); {
	case set == nil:
		return nil, &unavailableKeys{err}
	case set.byID[id] == nil:
		return nil, errUnknownKey
	default:
		return set.byID[id], nil
	}
}

// unavailableKeys is errNoKeys with the reason, which is for the log alone.
type unavailableKeys struct{ cause error }

func (e *unavailableKeys) Error() string { return errNoKeys.Error() }
func (e *unavailableKeys) Unwrap() error { return e.cause }

// current is what the issuer said, if that is not too long ago. Keys that are older are not taken, even if the issuer cannot be
// asked: one of them may have been revoked.
func (k *issuerKeys) current() *keySet {
	if set := k.known.Load(); set != nil && k.now().Sub(set.fetched) < keysLifetime {
		return set
	}
	return nil
}

// refresh asks the issuer, unless that was done a moment ago; then it is what came of that. Of several callers one asks.
func (k *issuerKeys) refresh() error {
	k.asking.Lock()
	defer k.asking.Unlock()
	if !k.asked.IsZero() && k.now().Sub(k.asked) < keysPause {
		return k.failed
	}
	set, err := k.fetch()
	k.asked, k.failed = k.now(), err
	if err != nil {
		k.log.Error("the keys of the token issuer cannot be read; tokens are refused", "issuer", k.issuer, "error", err)
		return err
	}
	set.fetched = k.asked
	k.known.Store(set)
	return nil
}

func (k *issuerKeys) fetch() (*keySet, error) {
	url := k.url
	if url == "" {
		found, err := k.discover()
		if err != nil {
			return nil, err
		}
		url = found
	}
	text, err := k.get(url)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

// discover asks the issuer where its keys are.
func (k *issuerKeys) discover() (string, error) {
	text, err := k.get(strings.TrimSuffix(k.issuer, "/") + discoveryPath)
	if err != nil {
		return "", err
	}
	var said struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(text, &said); {
	case err != nil:
		return "", errors.New("the discovery document is not JSON of the right shape")
	case said.Issuer != k.issuer:
		return "", errors.New("the discovery document is of another issuer")
	}
	if err := CheckIssuerURL(said.Keys); err != nil {
		return "", fmt.Errorf("%s of the discovery document: %w", discoveredName, err)
	}
	return said.Keys, nil
}

func (k *issuerKeys) get(url string) ([]byte, error) {
	resp, err := k.client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", url, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeysBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeysBytes:
		return nil, fmt.Errorf("%s answered more than %d bytes", url, maxKeysBytes)
	}
	return text, nil
}

// parseKeys reads a JWK set. Keys that are of no use here are left out, whatever is wrong with them; none at all is an error.
func parseKeys(text []byte) (*keySet, error) {
	var list struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, errors.New("the keys are not JSON of the right shape")
	}
	set := &keySet{byID: map[string][]jose.JSONWebKey{}}
	for _, raw := range list.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && usable(&key) {
			set.byID[key.KeyID] = append(set.byID[key.KeyID], key)
		}
	}
	if len(set.byID) == 0 {
		return nil, errors.New("there is no key among them that signatures can be verified with")
	}
	return set, nil
}

// usable tells a public key that signs, has an id and is of a kind that is accepted.
func usable(k *jose.JSONWebKey) bool {
	if k.KeyID == "" || k.Use != "" && k.Use != "sig" || !k.Valid() || !k.IsPublic() {
		return false
	}
	if key, ok := k.Key.(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
		return false
	}
	for _, alg := range signatures {
		if signsWith(k, string(alg)) {
			return true
		}
	}
	return false
}
