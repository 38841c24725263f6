package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 2; DECISIONS 1: a worker that was tried is left out while another is left.
func TestUntriedPrefersWorkersThatWereNotTried(t *testing.T) {
	r := newRig(t, 3, nil)
	among := func(tried ...int) (kept []int) {
		x := &pipeline.Exchange{Client: chat(), DryRun: true}
		for _, i := range tried {
			x.Try(r.workers[i])
		}
		chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Untried(), last(200, func(x *pipeline.Exchange) {
			for i, w := range r.workers {
				if x.Candidates.Contains(w) {
					kept = append(kept, i)
				}
			}
		}))
		require.NoError(t, chain.Run(x))
		return kept
	}
	require.Equal(t, []int{0, 1, 2}, among(), "a first attempt")
	require.Equal(t, []int{0, 2}, among(1))
	require.Equal(t, []int{2}, among(1, 0))
	require.Equal(t, []int{0, 1, 2}, among(2, 1, 0), "nobody would be left")

	put(t, r.workers[2], "unhealthy")
	x := &pipeline.Exchange{Client: chat()}
	x.Try(r.workers[0])
	x.Try(r.workers[1])
	chain := assembled(t, given(pipeline.Model), Candidates(r.registry), Available(), Untried(), last(200, func(x *pipeline.Exchange) {
		require.Equal(t, []*workers.Worker{r.workers[0], r.workers[1]}, x.Candidates.Members(), "the third may not be chosen anyway")
	}))
	require.NoError(t, chain.Run(x))
}

// DECISIONS 1 and 32: where the attempts of a request go that is pinned to the first worker. The workers fail as they are told; the
// last one is well.
func TestAPinnedRequestTriesItsWorkerTwice(t *testing.T) {
	const key = "X-Smg-Routing-Key"
	sticky := func(s *rigging) { s.policy, s.policies.Sticky = "random", true }
	policies := map[string]func(*rigging){
		"manual":      func(s *rigging) { s.policy = "manual" },
		"sticky":      sticky,
		"passthrough": func(s *rigging) { s.policy = "passthrough" },
		"round_robin": func(s *rigging) { s.policy = "round_robin" },
	}
	tests := []struct {
		name   string
		policy string
		fault  engine.Fault
		asked  int // how often the pinned worker is
	}{
		{"a pin has a second chance", "manual", engine.Fault{Status: 503}, 2},
		{"that of a session too", "sticky", engine.Fault{Status: 502}, 2},
		{"and the first worker of passthrough", "passthrough", engine.Fault{Status: 503}, 2},
		{"but not after a 500", "manual", engine.Fault{Status: 500}, 1},
		{"whoever has pinned it", "sticky", engine.Fault{Status: 500}, 1},
		{"nor passthrough", "passthrough", engine.Fault{Status: 500}, 1},
		{"who is not pinned is asked once", "round_robin", engine.Fault{Status: 503}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, func(s *rigging) { policies[tt.policy](s); s.states = []string{"ready", "unhealthy"} })
			require.Equal(t, 200, r.ask(chat(key, "K")).status, "the pin")
			put(t, r.workers[1], "ready")
			if tt.policy == "round_robin" {
				require.Equal(t, 200, r.ask(chat(key, "K")).status) // so that the first is the next one's
			}
			before := r.asked()
			r.engines[0].SetFaults(tt.fault)
			require.Equal(t, 200, r.ask(chat(key, "K")).status)
			after := r.asked()
			require.Equal(t, []int{tt.asked, 1}, []int{after[0] - before[0], after[1] - before[1]})
			r.engines[0].SetFaults(engine.Fault{})
			if tt.policy != "round_robin" {
				require.Equal(t, 200, r.ask(chat(key, "K")).status)
				require.Equal(t, after[0]+1, r.asked()[0], "what a retry has picked is not the pin")
			}
			r.requireQuiet(t)
		})
	}
}

// DECISIONS 1, 14 and 32: a worker that the client asks for is asked in every attempt, and nobody else is; its 500 is the answer.
func TestARequestForOneWorkerStaysThere(t *testing.T) {
	for _, tt := range []struct{ status, attempts int }{{503, 3}, {500, 1}} {
		r := newRig(t, 2, func(s *rigging) { s.policy = "consistent_hashing"; attempts(3)(s) })
		r.engines[1].SetFaults(engine.Fault{Status: tt.status})
		c := r.ask(chat("X-Smg-Target-Worker", "1"))
		require.Equal(t, tt.status, c.status)
		require.Equal(t, []int{0, tt.attempts}, r.asked())
	}
}

// DECISIONS 30: the answer to a target that is missed says so.
func TestATargetThatIsMissedIsNamed(t *testing.T) {
	r := newRig(t, 2, func(s *rigging) { s.policy = "consistent_hashing"; attempts(1)(s) })
	c := r.ask(chat("X-Smg-Target-Worker", "7"))
	require.Equal(t, 503, c.status)
	require.Equal(t, "no_available_workers", c.code())
	require.Contains(t, c.got.String(), "X-SMG-Target-Worker names none of the workers")
	require.Equal(t, []int{0, 0}, r.asked())
}
