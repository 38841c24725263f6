package stages

import (
	"errors"
	"strings"
)

// Role is what somebody may do on routes for operators.
type Role uint8

// The roles. Whatever a route for operators does, it takes an admin.
const (
	RoleUser Role = iota
	RoleAdmin
)

// String is the role's name: user or admin.
func (r Role) String() string {
	if r == RoleAdmin {
		return "admin"
	}
	return "user"
}

// ParseRole reads a role's name, in any case.
func ParseRole(name string) (Role, bool) {
	switch strings.ToLower(name) {
	case "admin":
		return RoleAdmin, true
	case "user":
		return RoleUser, true
	}
	return RoleUser, false
}

// Principal is who asks on a route for operators.
type Principal struct {
	Name   string // the id of a key, the subject of a token, or "anonymous"
	Method string // how that is known: api_key, jwt, shared_key or none
	Role   Role
}

// anonymous is whoever has not said who they are.
var anonymous = Principal{Name: "anonymous", Method: "none"}

// OperatorKey is a key of somebody who may ask on routes for operators.
type OperatorKey struct {
	ID, Name string // ID is what logs call it, Name is for people
	Role     Role
	Key      string
}

// ParseOperatorKey reads "id:name:role:key"; the key may have colons. The error says what is wrong, without the key.
func ParseOperatorKey(text string) (k OperatorKey, err error) {
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 4 {
		return k, errors.New("must be id:name:role:key")
	}
	k = OperatorKey{ID: parts[0], Name: parts[1], Key: parts[3]}
	for _, part := range []struct{ what, value string }{{"id", k.ID}, {"name", k.Name}} {
		if part.value == "" || strings.TrimSpace(part.value) != part.value {
			return k, errors.New("the " + part.what + " is empty or has blanks around it")
		}
	}
	role, known := ParseRole(parts[2])
	if !known {
		return k, errors.New("the role must be admin or user")
	}
	k.Role = role
	return k, nil
}
