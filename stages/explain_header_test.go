package stages

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// explaining is a rig whose chain has the stage.
func explaining(t *testing.T, n int, configure func(*rigging)) *rig {
	r := newRig(t, n, configure)
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.Before("candidates", ExplainHeader()) })
	return r
}

// told asks for the header, in a request with this body.
func (r *rig) told(t *testing.T, body string) (c *caller, e Explanation) {
	t.Helper()
	c = r.ask(post(chatPath, body, "X-Smg-Explain", "1"))
	value := c.head.Get("X-Smg-Explain")
	require.NoError(t, json.Unmarshal([]byte(value), &e), value)
	return c, e
}

const toModel = `{"model":"%s","messages":[{"role":"user","content":"hi"}]}`

// The same as a response header on demand.
func TestExplainHeaderTellsTheChoice(t *testing.T) {
	body := fmt.Sprintf(toModel, "m1")
	t.Run("who was chosen, by which policy, with which scores, and who was left out", func(t *testing.T) {
		r := explaining(t, 3, func(s *rigging) { s.policy, s.states = "least_load", []string{"unhealthy"} })
		r.workers[1].Begin()
		c, e := r.told(t, body)
		require.Equal(t, 200, c.status)
		require.Equal(t, "POST "+chatPath, e.Route)
		require.Equal(t, "m1", e.Model)
		require.Equal(t, "least_load", e.Policy)
		require.Equal(t, []ExplainedWorker{called(r.workers[1]), called(r.workers[2])}, e.Candidates)
		require.Equal(t, called(r.workers[2]), *e.Choice)
		require.Equal(t, []ExplainedLeaving{{called(r.workers[0]), "available", "not_ready"}}, e.LeftOut)
		require.Len(t, e.Scores, 2)
		require.Equal(t, called(r.workers[2]), e.Scores[0].ExplainedWorker, "the best first")
		require.Zero(t, *e.Scores[0].Score)
		require.NotEmpty(t, e.Scores[1].Parts)
		require.Nil(t, e.Error)
		require.Equal(t, 1, e.Attempt)
		require.False(t, e.Shortened)
		require.Len(t, r.posts(2), 1, "it was no dry run")
		r.workers[1].End()
	})
	t.Run("no score of a policy that gives none", func(t *testing.T) {
		_, e := explaining(t, 1, nil).told(t, body)
		require.Equal(t, "round_robin", e.Policy)
		require.Empty(t, e.Scores)
	})
	t.Run("the attempt whose answer it is", func(t *testing.T) {
		r := explaining(t, 2, nil)
		r.engines[0].SetFaults(engine.Fault{Status: 503})
		c, e := r.told(t, body)
		require.Equal(t, 200, c.status)
		require.Equal(t, called(r.workers[1]), *e.Choice)
		require.Equal(t, []ExplainedLeaving{{called(r.workers[0]), "untried", "tried by this request already"}}, e.LeftOut)
		require.Equal(t, 2, e.Attempt)
	})
	t.Run("of a stream too", func(t *testing.T) {
		_, e := explaining(t, 1, nil).told(t, stream)
		require.NotNil(t, e.Choice)
	})
	t.Run("why nobody was chosen", func(t *testing.T) {
		r := explaining(t, 2, func(s *rigging) { s.states, s.retry.MaxAttempts = []string{"unhealthy", "open"}, 1 })
		c, e := r.told(t, body)
		require.Equal(t, "no_available_workers", c.code())
		require.Nil(t, e.Choice)
		require.Empty(t, e.Candidates)
		require.Len(t, e.LeftOut, 2)
		require.Equal(t, c.code(), e.Error.Code)
	})
	t.Run("a worker that nobody reaches", func(t *testing.T) {
		r := explaining(t, 1, func(s *rigging) { s.retry.MaxAttempts = 1 })
		r.engines[0].Down()
		c, e := r.told(t, body)
		require.Equal(t, 502, c.status)
		require.Equal(t, called(r.workers[0]), *e.Choice)
	})
}

// A header has limits: of a large fleet it names the best workers, in bytes that any client can read.
func TestExplainHeaderFitsIntoAHead(t *testing.T) {
	const fleet = 200
	var all []*workers.Worker
	c := post(chatPath, "{}", "X-Smg-Explain", "1")
	x := &pipeline.Exchange{Client: c, Asked: "größe 🙂"}
	err := ExplainHeader().Handle(x, func(x *pipeline.Exchange) error {
		for i := range fleet {
			w, err := workers.New(workers.NewSpec(fmt.Sprintf("http://10.0.0.%d:8000", i)), workers.DefaultSettings())
			require.NoError(t, err)
			all = append(all, w)
			x.Explain.Rate(w, float64((i+100)%fleet), pipeline.Part{Name: "queued_wait", Value: float64(i)})
		}
		x.Candidates = workers.ListOf(all...)
		return &pipeline.Error{Status: 503, Code: "no_available_workers", Message: "none"}
	})
	require.Error(t, err)
	value := c.added.Get("X-Smg-Explain")
	require.LessOrEqual(t, len(value), 4096)
	require.Greater(t, len(value), 1024, "as many as fit")
	for _, b := range []byte(value) {
		require.True(t, b >= ' ' && b <= '~', "%q", b)
	}
	var e Explanation
	require.NoError(t, json.Unmarshal([]byte(value), &e), value)
	require.True(t, e.Shortened)
	require.Equal(t, x.Asked, e.Model)
	require.Equal(t, called(all[100]), e.Scores[0].ExplainedWorker, "the best one")
	require.Less(t, len(e.Scores), fleet)
}

// A number that is none has no place in JSON.
func TestNumbersThatAreNotFiniteAreNull(t *testing.T) {
	w, err := workers.New(workers.NewSpec("http://a:1"), workers.DefaultSettings())
	require.NoError(t, err)
	x := &pipeline.Exchange{Explain: &pipeline.Explanation{}}
	var zero float64
	x.Explain.Rate(w, 1/zero, pipeline.Part{Name: "a", Value: zero / zero}, pipeline.Part{Name: "b", Value: 2})
	text, err := json.Marshal(NewExplanation("POST /x", x, nil))
	require.NoError(t, err)
	require.Contains(t, string(text), `"score":null,"parts":{"a":null,"b":2}`)
	require.Contains(t, string(text), `"candidates":[],"left_out":[]`)
	require.Contains(t, string(text), `"choice":null,"error":null`)
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
