package stages

import (
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
