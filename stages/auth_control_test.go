package stages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// operatorsOf are operators with keys as flags give them, and the shared key ("" for none).
func operatorsOf(t testing.TB, shared string, keys ...string) *Operators {
	t.Helper()
	o := &Operators{}
	if shared != "" {
		require.NoError(t, o.AddShared(shared))
	}
	for _, text := range keys {
		key, err := ParseOperatorKey(text)
		require.NoError(t, err)
		require.NoError(t, o.AddKey(key))
	}
	return o
}

// ruling is what became of a request to a route for operators.
type ruling struct {
	status    int // 0: let in
	message   string
	principal Principal
	told      string // of the denial
}

func asking(t *testing.T, o *Operators, authorization string) (v ruling) {
	t.Helper()
	calls := 0
	guard := ControlAuth(o, func(_ *pipeline.Exchange, p Principal, denied string) {
		calls++
		v.principal, v.told = p, denied
	})
	headers := []string{}
	if authorization != "" {
		headers = []string{"Authorization", authorization}
	}
	_, err := chat(headers...).through(t, guard, last(200, func(x *pipeline.Exchange) {
		require.True(t, x.Withheld)
		require.Equal(t, v.principal, OperatorOf(x))
	}))
	require.Equal(t, 1, calls, "each decision is told once")
	if err != nil {
		e := pipeline.AsError(err)
		v.status, v.message = e.Status, e.Message
		require.Equal(t, map[int]string{401: "invalid_api_key", 403: "admin_role_required"}[e.Status], e.Code)
		if e.Status == http.StatusUnauthorized {
			require.Equal(t, []pipeline.Field{{Name: "WWW-Authenticate", Value: `Bearer realm="control-plane"`}}, e.Fields)
		}
	}
	return v
}

// workers.md, section 20
func TestControlAuth(t *testing.T) {
	const (
		missing = "Missing or invalid Authorization header"
		invalid = "Invalid authentication token"
		role    = "Admin role required for control plane access"
	)
	keys := func(t *testing.T) *Operators {
		return operatorsOf(t, "shared", "ops:Ops Team:admin:ka", "ci:CI:User:ku", "colons:With Colons:ADMIN:a:b:c")
	}
	nobody := func(t *testing.T) *Operators { return operatorsOf(t, "") }
	shared := func(t *testing.T) *Operators { return operatorsOf(t, "shared") }
	admin := Principal{"ops", "api_key", RoleAdmin}
	tests := []struct {
		name string
		of   func(*testing.T) *Operators
		sent string
		want ruling
	}{
		{"an admin's key", keys, "Bearer ka", ruling{principal: admin}},
		{"the scheme in lower case", keys, "bearer ka", ruling{principal: admin}},
		{"a key with colons", keys, "Bearer a:b:c", ruling{principal: Principal{"colons", "api_key", RoleAdmin}}},
		{"a user's key", keys, "Bearer ku", ruling{403, role, Principal{"ci", "api_key", RoleUser}, role}},
		{"no header", keys, "", ruling{401, missing, anonymous, missing}},
		{"another scheme", keys, "Basic ka", ruling{401, missing, anonymous, missing}},
		{"another key", keys, "Bearer x", ruling{401, invalid, anonymous, invalid}},
		{"the id of a key", keys, "Bearer ops", ruling{401, invalid, anonymous, invalid}},
		{"the shared key beside keys of operators", keys, "Bearer shared", ruling{401, invalid, anonymous, invalid}},
		{"the shared key alone", shared, "Bearer shared", ruling{principal: Principal{"shared", "shared_key", RoleAdmin}}},
		{"another one than the shared key", shared, "Bearer x", ruling{401, "Invalid API key", anonymous, "Invalid API key"}},
		{"nothing where there is the shared key", shared, "", ruling{401, missingKey, anonymous, missingKey}},
		{"a key where only tenants have some", nobody, "Bearer x", ruling{401, "Invalid API key", anonymous, "Invalid API key"}},
		{"nothing where only tenants have some", nobody, "", ruling{401, missingKey, anonymous, missingKey}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, asking(t, tt.of(t), tt.sent)) })
	}
}

// workers.md, section 20; cli.md, section 5.12: what is malformed is refused at start, without the key.
func TestOperatorKeys(t *testing.T) {
	tests := []struct {
		text, want string // want: the error
		key        OperatorKey
	}{
		{"ops:Ops:admin:secret", "", OperatorKey{"ops", "Ops", RoleAdmin, "secret"}},
		{"ops:Service Account:USER:a:b", "", OperatorKey{"ops", "Service Account", RoleUser, "a:b"}},
		{"ops:Ops:admin", "must be id:name:role:key", OperatorKey{}},
		{"secret", "must be id:name:role:key", OperatorKey{}},
		{"ops:Ops:root:secret", "the role must be admin or user", OperatorKey{}},
		{":Ops:admin:secret", "the id is empty or has blanks around it", OperatorKey{}},
		{"ops: Ops:admin:secret", "the name is empty or has blanks around it", OperatorKey{}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			key, err := ParseOperatorKey(tt.text)
			if tt.want != "" {
				require.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.key, key)
		})
	}
	o := operatorsOf(t, "", "a:A:admin:k")
	require.EqualError(t, o.AddKey(OperatorKey{"b", "B", RoleUser, "k"}), "the key is given twice")
	require.EqualError(t, o.AddKey(OperatorKey{"b", "B", RoleUser, ""}), "the key is empty")
}

func FuzzOperatorKey(f *testing.F) {
	for _, text := range []string{"ops:Ops:admin:k", "a:b:user:c:d", ":::", "", "a:b:c", "ops:Ops:ADMIN: k"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseOperatorKey(text)
		if err != nil {
			return
		}
		require.True(t, strings.HasSuffix(text, ":"+key.Key))
		require.True(t, strings.HasPrefix(text, key.ID+":"+key.Name+":"))
		require.NotEmpty(t, key.ID)
	})
}
