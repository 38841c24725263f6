package stages

import "net/http"

// Operators tells who may ask on routes for operators. Keys and tokens of operators come first; only where there are none, and no
// tokens are taken either, the key that callers of serving routes share is enough. If nothing of that is there, nobody may.
// It is filled before it is used, and not changed after that.
type Operators struct {
	ring       keyRing
	principals []Principal // by the key's place in the ring
	tokens     *JWTs       // nil: none are taken
	shared     keyRing
}

// AddKey adds a key. The error says what is wrong with it, without the key.
func (o *Operators) AddKey(k OperatorKey) error {
	if err := o.ring.add(k.Key); err != nil {
		return err
	}
	o.principals = append(o.principals, Principal{Name: k.ID, Method: "api_key", Role: k.Role})
	return nil
}

// AddShared makes the key that callers share enough while there is nothing better.
func (o *Operators) AddShared(key string) error { return o.shared.add(key) }

// TakeTokens makes tokens of an issuer count.
func (o *Operators) TakeTokens(j *JWTs) { o.tokens = j }

// dedicated tells whether there are credentials for operators alone.
func (o *Operators) dedicated() bool { return o.tokens != nil || len(o.principals) > 0 }

// Owns tells whether a token is meant for the routes for operators: one of their keys, or a token that says it is of their issuer.
func (o *Operators) Owns(token string) bool {
	return o.ring.find(token) >= 0 || o.tokens != nil && o.tokens.claimed(token)
}

// denial is why somebody may not ask.
type denial struct {
	status  int
	message string // for the client
	details string // for the audit log, if there is more to say than the message
}

// admit tells who asks, and why they may not; nil if they may. sent tells whether there is a token at all.
func (o *Operators) admit(token string, sent bool) (Principal, *denial) {
	if !o.dedicated() {
		return o.admitShared(token, sent)
	}
	if !sent {
		return anonymous, &denial{status: http.StatusUnauthorized, message: "Missing or invalid Authorization header"}
	}
	p, d := o.identify(token)
	if d == nil && p.Role != RoleAdmin {
		d = &denial{status: http.StatusForbidden, message: "Admin role required for control plane access"}
	}
	return p, d
}

// identify asks tokens first: what looks like one and is not valid is no key either.
func (o *Operators) identify(token string) (Principal, *denial) {
	if o.tokens != nil && isJWTShaped(token) {
		p, err := o.tokens.Verify(token)
		if err != nil {
			return anonymous, &denial{http.StatusUnauthorized, "Invalid JWT: " + err.Error(), detailsOf(err)}
		}
		return p, nil
	}
	if i := o.ring.find(token); i >= 0 {
		return o.principals[i], nil
	}
	return anonymous, &denial{status: http.StatusUnauthorized, message: "Invalid authentication token"}
}

func (o *Operators) admitShared(token string, sent bool) (Principal, *denial) {
	switch {
	case !sent:
		return anonymous, &denial{status: http.StatusUnauthorized, message: missingKey}
	case o.shared.find(token) < 0:
		return anonymous, &denial{status: http.StatusUnauthorized, message: invalidKey}
	}
	return Principal{Name: "shared", Method: "shared_key", Role: RoleAdmin}, nil
}
