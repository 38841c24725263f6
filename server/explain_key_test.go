package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/explain.md: the question's own Authorization places a request under consistent_hashing; a routing key that is the client's says where the
// client's would go.
func TestExplainOfAnotherClientsRequestUnderConsistentHashing(t *testing.T) {
	key := "operator"
	g := start(t, func(c *Config) {
		c.Policy, c.APIKey = "consistent_hashing", &key
		for k := range 6 {
			c.TenantAPIKeys = append(c.TenantAPIKeys, fmt.Sprintf("t%d:client-%d", k, k))
		}
	}, fleetOf(t, 3)...)
	g.serving(t, 3)
	const operator = "Bearer operator"
	own := g.explained(t, "", hello, "Authorization", operator).Choice.URL
	elsewhere := 0
	for k := range 6 {
		client := fmt.Sprint("Bearer client-", k)
		foretold := g.explained(t, "", hello, "Authorization", operator, "X-SMG-Routing-Key", client).Choice.URL
		require.Equal(t, foretold, g.post(t, chatPath, hello, "Authorization", client).Header.Get("X-Smg-Routed-Worker-Id"))
		if foretold != own {
			elsewhere++
		}
	}
	require.Positive(t, elsewhere, "the operator's own key says nothing about them")
}
