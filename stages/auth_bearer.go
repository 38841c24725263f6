package stages

import (
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// bearerOf is the token of the client's first Authorization field; sent is false if there is none, or it is of another scheme.
func bearerOf(c pipeline.Client) (token string, sent bool) {
	scheme, rest, _ := strings.Cut(c.Header("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token = strings.Trim(rest, " \t")
	return token, token != ""
}

// isJWTShaped tells a token of three parts with dots between them.
func isJWTShaped(token string) bool { return strings.Count(token, ".") == 2 }
