package stages

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, section 10 and 5.1; telemetry.md, section 4.4: each model's own policy, and the default for no model.
func TestPolicyLetsTheModelsPolicyChoose(t *testing.T) {
	r := newRig(t, 1, nil)
	spec := workers.NewSpec("http://localhost:" + r.engines[0].URL[len("http://127.0.0.1:"):])
	spec.Labels = map[string]string{"model_id": "m2", "policy": "random"}
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	r.register(t, w, "ready")
	named := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	}
	for _, model := range []string{"m1", "m2", "m2", "unknown"} {
		require.NotEmpty(t, r.ask(post(chatPath, named(model))).head.Get("X-Smg-Routed-Worker-Id"))
	}
	require.Equal(t, map[string]int{
		"worker_selection_total{http m1 round_robin regular}":      1,
		"worker_selection_total{http m2 random regular}":           2,
		"worker_selection_total{http unknown round_robin regular}": 1,
	}, r.family(t, "worker_selection_total"))
}

// family is a family's part of counted.
func (r *rig) family(t testing.TB, name string) map[string]int {
	t.Helper()
	all := r.counted(t)
	for series := range all {
		if len(series) <= len(name) || series[:len(name)+1] != name+"{" {
			delete(all, series)
		}
	}
	return all
}

// DECISIONS 23: a chain without the overload gate gets no_available_workers from the policy stage.
func TestPolicyAnswersForAnEmptyList(t *testing.T) {
	w := newWorker(t, "http://127.0.0.1:1", "m1", workers.DefaultSettings())
	put(t, w, "unhealthy")
	registry, m := workers.NewRegistry(w), telemetry.NewMetrics(telemetry.Options{})
	c := chat()
	err := assembled(t, given(pipeline.Model), Candidates(registry), Available(), Policy(policy.Only("random"), m)).
		Run(&pipeline.Exchange{Client: c})
	require.Equal(t, 503, c.status)
	require.Equal(t, "no_available_workers", c.code())
	require.Contains(t, c.got.String(), "unhealthy or draining: 1")
	require.False(t, pipeline.AsError(err).Terminal, "it may be retried")
}

// DESIGN, "Explaining": a dry run ends at the policy, and counts nothing.
func TestPolicyCountsNoDryRun(t *testing.T) {
	r := newRig(t, 2, nil)
	x := &pipeline.Exchange{Client: chat(), DryRun: true, Explain: &pipeline.Explanation{}}
	require.NoError(t, assembled(t, given(pipeline.Model), Candidates(r.registry), Policy(r.policies, r.metrics)).Run(x))
	require.Equal(t, r.workers[0], x.Target())
	require.Equal(t, 1, x.Legs.Len())
	require.Empty(t, r.family(t, "worker_selection_total"))
	require.Equal(t, r.workers[0].URL(), r.ask(chat()).head.Get("X-Smg-Routed-Worker-Id"), "it is still the first one's turn")
}

// policies.md, section 21, Check: one prefix_hash request moved off its target counts as a walk and as one selection.
func TestAPrefixHashRequestThatIsMovedIsCounted(t *testing.T) {
	r := &rig{metrics: telemetry.NewMetrics(telemetry.Options{}), registry: workers.NewRegistry()}
	s := policy.BuiltIn(policy.Shared{Metrics: r.metrics.Policies})
	s.PrefixLoadFactor, s.PrefixBalanceAbs = 1, 0
	var err error
	r.policies, err = policy.NewSet("prefix_hash", s, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r.registry.Listen(r.policies)
	for _, url := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		r.register(t, newWorker(t, url, "m1", workers.DefaultSettings()), "ready")
	}
	answer := pipeline.StageFunc("answer", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error { return x.WriteHead(200, 0, nil) })
	chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Policy(r.policies, r.metrics), answer)
	send := func() *workers.Worker {
		x := &pipeline.Exchange{Client: chat(), Key: pipeline.RoutingKey{Value: "session-42", Source: pipeline.HeaderKey}}
		require.NoError(t, chain.Run(x))
		return x.Target()
	}
	target := send()
	require.Equal(t, map[string]int{"prefix_hash_policy_branch_total{ring_hit}": 1}, r.family(t, "prefix_hash_policy_branch_total"))
	before := r.total(t, "worker_selection_total{")
	for range 3 {
		target.Begin()
	}
	require.NotSame(t, target, send())
	require.Equal(t, map[string]int{
		"prefix_hash_policy_branch_total{ring_hit}": 1, "prefix_hash_policy_branch_total{load_balance_walk}": 1,
	}, r.family(t, "prefix_hash_policy_branch_total"))
	require.Equal(t, before+1, r.total(t, "worker_selection_total{"))
	for series := range r.family(t, "worker_selection_total") {
		require.Contains(t, series, " prefix_hash ")
	}
}
