package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// idPolicies are the policies that place a request by the ids of its prompt.
var idPolicies = []string{"prefix_hash", "cache_aware", "least_work"}

// startPair runs a gateway with a policy in front of two workers.
func startPair(t *testing.T, policy string) (g *running, w1, w2 *engine.Running) {
	t.Helper()
	w1, w2 = engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
	g = start(t, func(c *Config) { c.Policy, c.PrefixTokens, c.LoadMonitorInterval = policy, 16, 3600 }, w1, w2)
	g.serving(t, 2)
	g.until(t, func() bool {
		all := g.gateway.registry.All()
		return all[0].Report() != nil && all[1].Report() != nil
	})
	return g, w1, w2
}

// Case C24 (prompt arrays and token ids), http-dataplane.md section 3: every form that engines take reaches one unchanged, and a prompt
// without anything in it never is a fault of the gateway.
func TestC24EveryFormOfAPromptReachesTheWorkerUnchanged(t *testing.T) {
	tests := []struct {
		path, body string
		empty      bool
	}{
		{"/v1/completions", `{"model":"m1","prompt":"a"}`, false},
		{"/v1/completions", `{"model":"m1","prompt":["a","b"]}`, false},
		{"/v1/completions", `{"model":"m1","prompt":[1, 2, 3]}`, false},
		{"/v1/completions", `{"model":"m1","prompt":[[1,2],[3]]}`, false},
		{"/v1/completions", `{"model":"m1","prompt":[]}`, true},
		{"/v1/completions", `{"model":"m1","prompt":[[]]}`, true},
		{"/generate", `{"input_ids":[1,2,3]}`, false},
		{"/generate", `{"input_ids":[[1,2],[3]]}`, false},
		{"/generate", `{"input_ids":[]}`, true},
		{"/generate", `{"input_ids":[[]]}`, true},
		{"/generate", `{"text":"t","input_ids":[1,2]}`, false},
		{"/generate", `{"text":["a","b"]}`, false},
	}
	for _, policy := range idPolicies {
		g, w1, w2 := startPair(t, policy)
		for _, tt := range tests {
			t.Run(policy+", "+tt.path+" "+tt.body, func(t *testing.T) {
				before := len(posts(w1)) + len(posts(w2))
				r := g.post(t, tt.path, tt.body)
				if len(posts(w1))+len(posts(w2)) == before {
					require.True(t, tt.empty, "refused: %s", r.Body)
					require.Equal(t, http.StatusBadRequest, r.StatusCode)
					requireJSONError(t, r, http.StatusBadRequest, r.Header.Get("X-SMG-Error-Code"))
					return
				}
				if !tt.empty {
					require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				}
				require.Less(t, r.StatusCode, 500, r.Body)
				require.True(t, slices.ContainsFunc(append(posts(w1), posts(w2)...), func(r engine.Request) bool {
					return r.Path == tt.path && string(r.Body) == tt.body
				}), "byte for byte")
			})
		}
	}
}

// Case C24, cache-aware.md section 1, policies.md section 12: requests whose prompts begin alike go to one worker, by their ids where they
// have some.
func TestC24PromptsThatBeginAlikeStayTogether(t *testing.T) {
	const requests = 16
	tests := []struct {
		name, path string
		body       func(i int) string
	}{
		{"the same first ids", "/v1/completions", func(i int) string {
			return fmt.Sprintf(`{"model":"m1","prompt":[%s,%s]}`, ids(1000, 64, 1), ids(5000+i*7, 20, 1))
		}},
		{"the same first ids of the first of several prompts", "/v1/completions", func(i int) string {
			return fmt.Sprintf(`{"model":"m1","prompt":[[%s,%s],[%d]]}`, ids(2000, 64, 1), ids(5000+i*7, 20, 1), i)
		}},
		{"the same ids beside another text", "/generate", func(i int) string {
			return fmt.Sprintf(`{"text":"%d is another text","input_ids":[%s]}`, i*7919, ids(3000, 64, 1))
		}},
		{"the same system prompt and first turns", chatPath, func(i int) string {
			return fmt.Sprintf(`{"model":"m1","messages":[{"role":"system","content":%q},{"role":"user","content":"one"},`+
				`{"role":"assistant","content":"two"},{"role":"user","content":"last %d"}]}`, strings.Repeat("system words ", 60), i*7919)
		}},
	}
	for _, policy := range idPolicies {
		for _, tt := range tests {
			t.Run(policy+", "+tt.name, func(t *testing.T) {
				g, w1, w2 := startPair(t, policy)
				for i := range requests {
					r := g.post(t, tt.path, tt.body(i))
					require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				}
				g.quiet(t)
				require.ElementsMatch(t, []int{0, requests}, []int{len(posts(w1)), len(posts(w2))})
			})
		}
	}
}

// Case C24: prompts that begin otherwise go to both workers, each getting from 25 to 75 %, although one of them has just had many whose
// beginning it holds: only what they had to compute counts until its next report. 256 in place of 64, so that a ring with ports by chance
// is no lottery.
func TestC24PromptsThatBeginOtherwiseAreSpread(t *testing.T) {
	const requests = 256
	for _, policy := range idPolicies {
		t.Run(policy, func(t *testing.T) {
			g, w1, w2 := startPair(t, policy)
			if policy == "cache_aware" {
				for _, w := range g.gateway.registry.All() {
					g.until(t, func() bool { return w.Report() != nil })
				}
			}
			for i := range 16 {
				r := g.post(t, chatPath, fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%s%d"}]}`, strings.Repeat("words ", 99), i))
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
			}
			g.quiet(t)
			before := len(posts(w1))
			for i := range requests {
				r := g.post(t, "/v1/completions", fmt.Sprintf(`{"model":"m1","prompt":[%s]}`, ids(7+131*i, 64, i+3)))
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
			}
			require.InDelta(t, requests/2, len(posts(w1))-before, requests/4)
			require.Equal(t, requests+16, len(posts(w1))+len(posts(w2)))
		})
	}
}

// ids are n token ids from the first one on, in steps.
func ids(first, n, step int) string {
	list := make([]string, n)
	for k := range list {
		list[k] = fmt.Sprint(first + k*step)
	}
	return strings.Join(list, ",")
}
