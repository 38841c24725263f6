package stages

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/telemetry"
)

// cachedRig is a chain whose policy is cache_aware, and what that has counted.
func cachedRig(t *testing.T, engines int) (*rig, *telemetry.PolicyMetrics) {
	t.Helper()
	metrics := telemetry.NewMetrics(telemetry.Options{}).Policies
	r := newRig(t, engines, func(s *rigging) {
		s.policy, s.policies.CacheThreshold, s.policies.BalanceAbs, s.policies.BalanceRel = "cache_aware", 0.3, 64, 1.5
		s.policies.Metrics = metrics
		s.retry.MaxAttempts = 1
	})
	return r, metrics
}

func message(model, text string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, text)
}

// cache-aware.md, section 0.1: a model has one tree, under whatever name it is asked for.
func TestAnAliasSharesTheTreeOfItsModel(t *testing.T) {
	r, metrics := cachedRig(t, 2)
	r.registry.Alias("m", "m1")
	first := r.ask(post(chatPath, message("m", "a prompt of some words"))).head.Get("X-Smg-Routed-Worker-Id")
	require.NotEmpty(t, first)
	for range 5 {
		require.Equal(t, first, r.ask(post(chatPath, message("m1", "a prompt of some words"))).head.Get("X-Smg-Routed-Worker-Id"))
	}
	require.EqualValues(t, 5, testutil.ToFloat64(metrics.CacheAware["tree_match"]))
	require.EqualValues(t, 1, testutil.ToFloat64(metrics.CacheAware["expected_wait_fallback"]))
}

// cache-aware.md, section 1.3
func TestASaltKeepsPromptsApart(t *testing.T) {
	r, metrics := cachedRig(t, 2)
	salted := func(salt string) {
		c := r.ask(post(chatPath, fmt.Sprintf(`{"model":"m1","cache_salt":%q,"messages":[{"role":"user","content":"a prompt of words"}]}`, salt)))
		require.Equal(t, 200, c.status)
	}
	matches := func() int { return int(testutil.ToFloat64(metrics.CacheAware["tree_match"])) }
	for i, tt := range []struct {
		salt    string
		matches int
	}{{"a", 0}, {"b", 0}, {"a", 1}, {"", 1}, {"", 2}} {
		salted(tt.salt)
		require.Equal(t, tt.matches, matches(), "request %d", i)
	}
}

// DECISIONS.md 2: what a failed attempt has recorded is not there for the next request.
func TestAFailedAttemptIsForgottenByTheIndex(t *testing.T) {
	for name, fault := range map[string]engine.Fault{"an error": {Status: 400}, "no answer": {Close: true}} {
		t.Run(name, func(t *testing.T) {
			r, metrics := cachedRig(t, 1)
			matches := func() int { return int(testutil.ToFloat64(metrics.CacheAware["tree_match"])) }
			r.engines[0].SetFaults(fault)
			require.NotEqual(t, 200, r.ask(post(chatPath, message("m1", "a prompt of some words"))).status)
			r.engines[0].SetFaults()
			before := matches()
			require.Equal(t, 200, r.ask(post(chatPath, message("m1", "a prompt of some words"))).status)
			require.Equal(t, before, matches(), "nothing was left of it")
			require.Equal(t, 200, r.ask(post(chatPath, message("m1", "a prompt of some words"))).status)
			require.Equal(t, before+1, matches())
		})
	}
}
