package stages

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// explaining is a rig whose chain has the stage.
func explaining(t *testing.T, n int, configure func(*rigging)) *rig {
	r := newRig(t, n, configure)
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.Before("candidates", ExplainHeader()) })
	return r
}

// told asks for the header, in a request for this model.
func (r *rig) told(body string) *caller {
	return r.ask(post(chatPath, body, "X-Smg-Explain", "1"))
}

const toModel = `{"model":"%s","messages":[{"role":"user","content":"hi"}]}`

// The same as a response header on demand.
func TestExplainHeaderTellsTheChoice(t *testing.T) {
	body := fmt.Sprintf(toModel, "m1")
	t.Run("who was chosen, by which policy, with which score, of how many", func(t *testing.T) {
		r := explaining(t, 3, func(s *rigging) { s.policy, s.states = "least_load", []string{"unhealthy"} })
		r.workers[1].Begin()
		c := r.told(body)
		require.Equal(t, 200, c.status)
		require.Equal(t, fmt.Sprintf("choice=%q, policy=least_load, score=0, candidates=2, left_out=1, attempt=1", r.workers[2].URL()), c.head.Get("X-Smg-Explain"))
		require.Len(t, r.posts(2), 1, "it was no dry run")
		r.workers[1].End()
	})
	t.Run("no score of a policy that gives none", func(t *testing.T) {
		r := explaining(t, 1, nil)
		require.Equal(t, fmt.Sprintf("choice=%q, policy=round_robin, candidates=1, left_out=0, attempt=1", r.workers[0].URL()), r.told(body).head.Get("X-Smg-Explain"))
	})
	t.Run("the attempt whose answer it is", func(t *testing.T) {
		r := explaining(t, 2, nil)
		r.engines[0].SetFaults(engine.Fault{Status: 503})
		c := r.told(body)
		require.Equal(t, 200, c.status)
		require.Equal(t, fmt.Sprintf("choice=%q, policy=round_robin, candidates=1, left_out=1, attempt=2", r.workers[1].URL()), c.head.Get("X-Smg-Explain"))
	})
	t.Run("of a stream too", func(t *testing.T) {
		r := explaining(t, 1, nil)
		require.Contains(t, r.told(stream).head.Get("X-Smg-Explain"), "choice=")
	})
	t.Run("why nobody was chosen", func(t *testing.T) {
		r := explaining(t, 2, func(s *rigging) { s.states, s.retry.MaxAttempts = []string{"unhealthy", "open"}, 1 })
		c := r.told(body)
		require.Equal(t, "no_available_workers", c.code())
		require.Equal(t, "candidates=0, left_out=2, attempt=1", c.head.Get("X-Smg-Explain"))
	})
	t.Run("a worker that nobody reaches", func(t *testing.T) {
		r := explaining(t, 1, func(s *rigging) { s.retry.MaxAttempts = 1 })
		r.engines[0].Down()
		c := r.told(body)
		require.Equal(t, 502, c.status)
		require.Contains(t, c.head.Get("X-Smg-Explain"), r.workers[0].URL())
	})
}

func TestExplainHeaderIsForThoseWhoAsk(t *testing.T) {
	r := explaining(t, 1, nil)
	for _, value := range []string{"", "0", "true"} {
		c := post(chatPath, fmt.Sprintf(toModel, "m1"), "X-Smg-Explain", value)
		require.Empty(t, r.ask(c).head.Get("X-Smg-Explain"), value)
	}
	x := &pipeline.Exchange{Client: post(chatPath, fmt.Sprintf(toModel, "m1"), "X-Smg-Explain", "1"), DryRun: true, Explain: &pipeline.Explanation{}}
	notes := x.Explain
	x.Explain.Leave(r.workers[0], "other", "noted before")
	require.NoError(t, ExplainHeader().Handle(x, func(*pipeline.Exchange) error { return nil }))
	require.Same(t, notes, x.Explain, "whoever rehearses keeps the notes")
}

// Every filter says whom it leaves out, and why.
func TestFiltersNoteWhomTheyLeaveOut(t *testing.T) {
	tests := []struct{ state, stage, reason string }{
		{"pending", "available", "pending"},
		{"unhealthy", "available", "not_ready"},
		{"failed", "available", "failed"},
		{"draining", "available", "draining"},
		{"open", "breaker", "open"},
		{"overloaded", "overload", "overloaded"},
	}
	for _, tt := range tests {
		t.Run(tt.state, func(t *testing.T) {
			r := newRig(t, 2, func(s *rigging) { s.states = []string{tt.state} })
			require.Equal(t, []pipeline.LeftOut{{Worker: r.workers[0], Stage: tt.stage, Reason: tt.reason}}, rehearsed(t, r, nil).Explain.LeftOut)
		})
	}
	t.Run("tried in this request", func(t *testing.T) {
		r := newRig(t, 2, nil)
		tried := rehearsed(t, r, func(x *pipeline.Exchange) { x.Try(r.workers[1]) })
		require.Equal(t, []pipeline.LeftOut{{Worker: r.workers[1], Stage: "untried", Reason: "tried by this request already"}}, tried.Explain.LeftOut)
	})
	t.Run("overloaded since it was chosen", func(t *testing.T) {
		r := newRig(t, 1, nil)
		r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
			return c.After("policy", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
				r.workers[0].SetOverloaded(true)
				return next(x)
			}))
		})
		x := rehearsed(t, r, nil)
		require.Equal(t, []pipeline.LeftOut{{Worker: r.workers[0], Stage: "dispatch", Reason: "overloaded since it was chosen"}}, x.Explain.LeftOut)
	})
}

// rehearsed takes a request through the rig as a dry run, up to the moment at which it would be counted.
func rehearsed(t *testing.T, r *rig, before func(*pipeline.Exchange)) *pipeline.Exchange {
	t.Helper()
	chain, err := r.Chain.Until("dispatch")
	require.NoError(t, err)
	chain, err = chain.Without("retry")
	require.NoError(t, err)
	x := &pipeline.Exchange{Client: chat(), Explain: &pipeline.Explanation{}, DryRun: true}
	if before != nil {
		before(x)
	}
	_ = chain.Run(x)
	return x
}

// A rehearsal does not count how its body would have gone.
func TestADryRunIsNotCountedByBuffer(t *testing.T) {
	r := newRig(t, 1, nil)
	rehearsed(t, r, nil)
	require.Zero(t, r.count(t, "router_request_body_path_total{buffered retryable}"))
	r.ask(chat())
	require.Equal(t, 1, r.count(t, "router_request_body_path_total{buffered retryable}"))
}
