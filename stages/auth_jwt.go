package stages

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWTSettings say which tokens are taken.
type JWTSettings struct {
	Issuer   string // what the claim iss must be
	Audience string // what must be among the claim aud
	// KeysURL is where the issuer's keys are; "" asks Issuer + "/.well-known/openid-configuration". See [CheckIssuerURL].
	KeysURL string
	// RoleClaim is the claim that says the role, a text or a list of them; "" is roles. Where it is absent, the first of role, roles,
	// groups and group counts.
	RoleClaim string
	// Roles maps what the issuer says to roles. If there is a mapping, only what is in it counts; if not, the names of roles do.
	Roles map[string]Role

	client *http.Client // nil: one that keeps to the rules for issuers
}

// JWTs takes tokens of one issuer. As a dependency it asks for the issuer's keys when it starts, and says so if there are none; they
// are asked for again when they are an hour old, or a token names one that is not among them.
type JWTs struct {
	settings JWTSettings
	keys     *issuerKeys
	now      func() time.Time
}

// NewJWTs makes a taker of tokens; nobody is asked yet. A nil logger logs nothing. The error is about a URL that must not be asked.
func NewJWTs(s JWTSettings, log *slog.Logger) (*JWTs, error) {
	asked := s.KeysURL
	if asked == "" {
		asked = s.Issuer
	}
	if err := CheckIssuerURL(asked); err != nil {
		return nil, err
	}
	if s.RoleClaim == "" {
		s.RoleClaim = "roles"
	}
	if s.client == nil {
		s.client = issuerClient()
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	j := &JWTs{settings: s, now: time.Now}
	j.keys = &issuerKeys{issuer: s.Issuer, url: s.KeysURL, client: s.client, log: log, now: func() time.Time { return j.now() }}
	return j, nil
}

// Name is the dependency's name.
func (*JWTs) Name() string { return "jwt_keys" }

// Run asks for the keys once, so that what is wrong with the issuer is in the log before the first token comes.
func (j *JWTs) Run(ctx context.Context, ready func()) error {
	ready()
	_ = j.keys.refresh() // it has said so itself; a token asks again
	<-ctx.Done()
	return nil
}

// jwtLeeway is by how much the clocks of issuer and gateway may differ.
const jwtLeeway = 30 * time.Second

// signatures are the algorithms that are taken. There is none with a shared secret among them, and not "none".
var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384}

// Why a token is not taken. None of it repeats what is in the token.
var (
	errMalformed     = errors.New("it is malformed, or its algorithm is not accepted")
	errNoKeyID       = errors.New("it names no key")
	errUnknownKey    = errors.New("the issuer has no such key")
	errNoKeys        = errors.New("the keys of the issuer cannot be read")
	errOtherAlg      = errors.New("its algorithm is not that of the key")
	errBadSignature  = errors.New("its signature is not valid")
	errNoExpiry      = errors.New("it does not expire")
	errExpired       = errors.New("it has expired")
	errNotYet        = errors.New("it is not valid yet")
	errOtherIssuer   = errors.New("it is of another issuer")
	errOtherAudience = errors.New("it is for another audience")
)

// Verify tells whose token it is. The error says why it is not taken, in words that may be shown.
func (j *JWTs) Verify(token string) (Principal, error) {
	signed, err := jwt.ParseSigned(token, signatures)
	if err != nil || len(signed.Headers) != 1 {
		return Principal{}, errMalformed
	}
	key, err := j.keyFor(signed.Headers[0])
	if err != nil {
		return Principal{}, err
	}
	var standard jwt.Claims
	var all map[string]any
	if err := signed.Claims(key.Key, &standard, &all); err != nil {
		if errors.Is(err, jose.ErrCryptoFailure) {
			return Principal{}, errBadSignature
		}
		return Principal{}, errMalformed
	}
	if err := j.check(standard); err != nil {
		return Principal{}, err
	}
	return Principal{Name: standard.Subject, Method: "jwt", Role: j.roleOf(all)}, nil
}

// keyFor finds the key that the token names, for the token's algorithm.
func (j *JWTs) keyFor(h jose.Header) (*jose.JSONWebKey, error) {
	if h.KeyID == "" {
		return nil, errNoKeyID
	}
	named, err := j.keys.named(h.KeyID)
	if err != nil {
		return nil, err
	}
	for i := range named {
		if signsWith(&named[i], h.Algorithm) {
			return &named[i], nil
		}
	}
	return nil, errOtherAlg
}

// signsWith tells whether a key is for an algorithm: the one that it names, or one of its kind if it names none.
func signsWith(k *jose.JSONWebKey, alg string) bool {
	if k.Algorithm != "" && k.Algorithm != alg {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS")
	case *ecdsa.PublicKey:
		return alg == map[string]string{"P-256": "ES256", "P-384": "ES384"}[key.Params().Name]
	}
	return false
}

func (j *JWTs) check(c jwt.Claims) error {
	if c.Expiry == nil {
		return errNoExpiry
	}
	c.IssuedAt = nil // when it was made is not asked
	want := jwt.Expected{Issuer: j.settings.Issuer, AnyAudience: jwt.Audience{j.settings.Audience}, Time: j.now()}
	switch err := c.ValidateWithLeeway(want, jwtLeeway); {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return errOtherIssuer
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errOtherAudience
	case errors.Is(err, jwt.ErrNotValidYet):
		return errNotYet
	case err != nil:
		return errExpired
	}
	return nil
}

// claimed tells whether a token says that it is of the issuer, whether or not that is true.
func (j *JWTs) claimed(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &c) == nil && c.Issuer == j.settings.Issuer
}

// detailsOf is what the audit log says of a token that was not taken beyond the answer.
func detailsOf(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return ""
}
