package stages

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// Auth lets requests in that bring one of the keys as "Authorization: Bearer <key>"; the scheme is read in any case, no other header
// is. Without a key, or with another one, the answer is 401 invalid_api_key. The request's tenant is the one that the key is of, and
// what was checked here is sent to no worker: each gets its own key.
//
// It stands behind payload_limit, and before what waits, reads the body or looks for workers. Cost: one SHA-256 and a comparison with
// every key, whichever fits; no allocation.
func Auth(keys *APIKeys) pipeline.Stage { return &auth{keys} }

type auth struct{ keys *APIKeys }

var _ pipeline.Stage = (*auth)(nil)

func (*auth) Name() string { return "auth" }

func (s *auth) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	token, sent := bearerOf(x.Client)
	if !sent {
		return unauthorized(missingKey, servingRealm)
	}
	tenant, known := s.keys.Tenant(token)
	if !known {
		return unauthorized(invalidKey, servingRealm)
	}
	x.Tenant, x.Withheld = tenant, true
	return next(x)
}

const (
	missingKey = "Missing API key: send it as `Authorization: Bearer <key>`"
	invalidKey = "Invalid API key"

	servingRealm = `Bearer realm="smg"`
	controlRealm = `Bearer realm="control-plane"`
)

// unauthorized refuses a request for its credential, which it does not repeat.
func unauthorized(message, challenge string) *pipeline.Error {
	return &pipeline.Error{
		Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: message, Terminal: true,
		Fields: []pipeline.Field{{Name: "WWW-Authenticate", Value: challenge}},
	}
}
