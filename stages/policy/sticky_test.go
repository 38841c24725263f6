package policy

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

func sticky4(t *testing.T, policy string, n int, mode Assignment) *site {
	t.Helper()
	return newSite(t, policy, n, func(s *Settings) { s.Sticky, s.Assignment = true, mode })
}

// policies.md, section 15: with the override and without.
func TestAKeySticksToItsWorker(t *testing.T) {
	s := sticky4(t, "round_robin", 2, AssignUnset)
	first := s.pick(keyed("session-A"))
	for range 5 {
		require.Equal(t, first, s.pick(keyed("session-A")))
	}
	require.Equal(t, map[string]int{"vacant": 1, "occupied_hit": 5}, branches(s.metrics.Manual))
	require.Equal(t, map[string]int{"header": 6}, branches(s.metrics.KeySource))
	require.NotEqual(t, s.pick(request()), s.pick(request()), "without a key the policy decides")
	require.Equal(t, 1, s.entries())
	require.Equal(t, "round_robin", s.For("m1").Name(), "the metric names the configured policy")

	off := newSite(t, "round_robin", 2, nil)
	require.NotEqual(t, off.pick(keyed("session-A")), off.pick(keyed("session-A")))
}

// policies.md, section 15: the rid decides, whatever the header is.
func TestARidSticksWhateverTheHeaderSays(t *testing.T) {
	s := sticky4(t, "round_robin", 5, AssignUnset)
	first := s.pick(ridden("conv42"))
	for i := range 10 {
		require.Equal(t, first, s.pick(ridden("conv42", "X-Smg-Routing-Key", fmt.Sprint("k", i))))
	}
	require.Equal(t, map[string]int{"rid": 11}, branches(s.metrics.KeySource))
}

// hold counts a request of a key as in flight with a worker; the result ends it.
func (s *site) hold(name, key string) (end func()) {
	w := s.named(name)
	w.Begin()
	w.BeginKey(key)
	return func() { w.EndKey(key); w.End() }
}

// policies.md, section 15: "two requests of K in flight on its pin, third -> other worker under round_robin, cap_respill, pin moves;
// when those two end the next K goes to the new primary".
func TestAKeyThatIsBusyMovesOn(t *testing.T) {
	s := sticky4(t, "round_robin", 2, AssignUnset)
	first := s.pick(keyed("K"))
	one := s.hold(first, "K")
	require.Equal(t, first, s.pick(keyed("K")), "one in flight is not too many")
	two := s.hold(first, "K")
	other := s.pick(keyed("K"))
	require.NotEqual(t, first, other)
	require.Equal(t, map[string]int{"vacant": 1, "occupied_hit": 1, "cap_respill": 1}, branches(s.metrics.Manual))
	one()
	two()
	require.Equal(t, other, s.pick(keyed("K")))
	s.down(int(other[1] - '0'))
	require.Equal(t, first, s.pick(keyed("K")), "the old one is the second")
}

// policies.md, section 15: the key stays where it is if the new placement is no better.
func TestAKeyThatIsBusyEverywhereStays(t *testing.T) {
	s := sticky4(t, "round_robin", 2, AssignUnset)
	first := s.pick(keyed("K"))
	ends := []func(){s.hold("w1", "K"), s.hold("w1", "K"), s.hold("w2", "K"), s.hold("w2", "K")}
	require.NotEqual(t, first, s.pick(keyed("K")), "it goes where it is placed, nevertheless")
	for _, end := range ends {
		end()
	}
	require.Equal(t, first, s.pick(keyed("K")))

	single := sticky4(t, "random", 1, AssignUnset)
	require.Equal(t, "w1", single.pick(keyed("K")))
	end, end2 := single.hold("w1", "K"), single.hold("w1", "K")
	require.Equal(t, "w1", single.pick(keyed("K")))
	require.Equal(t, 1, branches(single.metrics.Manual)["cap_respill"])
	end()
	end2()
	require.Equal(t, "w1", single.pick(keyed("K")))
	require.Equal(t, map[string]int{"vacant": 1, "cap_respill": 1, "occupied_hit": 1}, branches(single.metrics.Manual))
}

// policies.md, section 15: only the key's own requests count for the cap.
func TestForeignRequestsDoNotMoveAKey(t *testing.T) {
	s := sticky4(t, "round_robin", 3, AssignUnset)
	first := s.pick(keyed("K"))
	busy(s.named(first), 100)
	s.hold(first, "L")
	s.hold(first, "L")
	require.Equal(t, first, s.pick(keyed("K")))
	require.Equal(t, 1, branches(s.metrics.Manual)["occupied_hit"])
}

// policies.md, section 15: delegate moves a key for good, other modes let it come back.
func TestAKeyWhoseWorkerIsOut(t *testing.T) {
	for _, tt := range []struct {
		mode  Assignment
		stays bool
	}{{AssignUnset, true}, {AssignDelegate, true}, {AssignMinLoad, false}, {AssignMinGroup, false}, {AssignRandom, false}} {
		t.Run(string(tt.mode), func(t *testing.T) {
			s := sticky4(t, "round_robin", 3, tt.mode)
			p := s.pick(keyed("K"))
			s.named(p).SetOverloaded(true)
			q := s.pick(keyed("K"))
			require.NotEqual(t, p, q)
			require.Equal(t, 1, branches(s.metrics.Manual)["occupied_miss"])
			s.named(p).SetOverloaded(false)
			require.Equal(t, tt.stays, s.pick(keyed("K")) == q)
			s.named(q).SetOverloaded(true)
			require.Equal(t, p, s.pick(keyed("K")), "the other one is remembered")
		})
	}
}

// policies.md, section 15: the mode decides about a new key.
func TestSessionsAssignByMode(t *testing.T) {
	s := sticky4(t, "passthrough", 3, AssignUnset)
	busy(s.workers[0], 2)
	require.Equal(t, "w1", s.pick(keyed("K")), "delegate asks the policy")
	s = sticky4(t, "passthrough", 3, AssignMinLoad)
	busy(s.workers[0], 2)
	busy(s.workers[2], 1)
	require.Equal(t, "w2", s.pick(keyed("K")))
	s = sticky4(t, "passthrough", 3, AssignMinGroup)
	s.workers[0].BeginKey("a")
	s.workers[1].BeginKey("a")
	require.Equal(t, "w3", s.pick(keyed("K")))
	require.Equal(t, "w1", s.pick(request()), "without a key the policy decides")
}

// policies.md, section 15: the policy chooses nobody.
func TestAPolicyThatChoosesNobodyLeavesNoPin(t *testing.T) {
	s := newSite(t, "least_load", 2, func(s *Settings) { s.Sticky, s.MaxWaiting = true, 1 })
	for _, w := range s.workers {
		says(w, waiting(5, 0, 100))
	}
	require.Equal(t, "none", s.pick(keyed("K")))
	require.Equal(t, map[string]int{"vacant": 1}, branches(s.metrics.Manual))
	require.Zero(t, s.entries())
	s.down(1, 2)
	require.Equal(t, "none", s.pick(keyed("K")))
	require.Equal(t, 1, branches(s.metrics.Manual)["no_healthy_workers"])
}

// policies.md, section 15: model scoping.
func TestOneConversationOverTwoModelsHasTwoPins(t *testing.T) {
	s := sticky4(t, "random", 2, AssignUnset)
	s.add("http://w3:8000", "m2")
	two := keyed("K")
	two.Model = "m2"
	require.Equal(t, "w3", s.pick(two))
	require.NotEqual(t, "w3", s.pick(keyed("K")))
	require.Equal(t, 2, s.entries())
}

// policies.md, section 15, interaction rules: who is pinned.
func TestPoliciesThatKnowKeysThemselvesAreNotWrapped(t *testing.T) {
	for _, name := range Names() {
		s := sticky4(t, name, 3, AssignUnset)
		_, wrapped := s.Default().(*sticky)
		require.Equal(t, name != "manual" && name != "consistent_hashing", wrapped, name)
	}
	s := sticky4(t, "random", 1, AssignUnset)
	w := worker(t, "http://w9:8000", map[string]string{"model_id": "m2", "policy": "round_robin"})
	require.NoError(t, s.registry.Add(w))
	require.IsType(t, &sticky{}, s.For("m2"), "a model's own policy is behind the sessions too")
	require.Same(t, s.sessions, s.For("m2").(*sticky).sessions)
}

// policies.md, section 20: one flag, two defaults.
func TestTheAssignmentModeOfManualAndOfSessions(t *testing.T) {
	s := sticky4(t, "manual", 1, AssignUnset)
	require.Equal(t, AssignUnset, s.settings.Assignment)
	require.Equal(t, AssignRandom, s.Default().(*manual).assign)
	require.Equal(t, AssignDelegate, s.sessions.assign)
	s = sticky4(t, "manual", 1, AssignMinLoad)
	require.Equal(t, AssignMinLoad, s.Default().(*manual).assign)
	require.Equal(t, AssignMinLoad, s.sessions.assign)
}

// policies.md, section 15: eviction as in section 13.
func TestIdleSessionsAreSweptAway(t *testing.T) {
	s := newSite(t, "random", 2, func(s *Settings) { s.Sticky, s.MaxIdle, s.EvictionInterval = true, 10*time.Second, 2*time.Second })
	s.pick(keyed("K"))
	s.now = s.now.Add(11 * time.Second)
	for p := range s.kept() {
		p.Upkeep(s.now)
	}
	require.Zero(t, s.entries())
}

// policies.md, section 22: the line, with the key as it is kept.
func TestADecisionOfASessionIsLogged(t *testing.T) {
	s := sticky4(t, "random", 1, AssignUnset)
	s.pick(keyed("K"))
	s.down(1)
	s.pick(ridden("conv"))
	lines := s.lines("Sticky routing decision")
	require.Len(t, lines, 2)
	for i, want := range []map[string]any{
		{"source": "header", "key": "m1/regular/K", "branch": "vacant", "worker": "http://w1:8000", "model_id": "m1", "target": "smg::policies::registry"},
		{"source": "rid", "key": "m1/regular/conv", "branch": "no_healthy_workers", "worker": "none"},
	} {
		for field, value := range want {
			require.Equal(t, value, lines[i][field], field)
		}
	}
	require.Empty(t, s.said.at(t, slog.LevelWarn))
}

// noted is a policy with books, which chooses the first.
type noted struct {
	Policy
	ended int
}

func (*noted) Select(*pipeline.Exchange, workers.List) int { return 0 }
func (l *noted) Ended(*pipeline.Exchange)                  { l.ended++ }
func (*noted) Reason(*pipeline.Exchange) string            { return "because" }

// A policy hears of the end of the attempts that it was asked about, and of no others; so it is with its words.
func TestAPolicyBehindSessionsHearsOfItsOwnChoices(t *testing.T) {
	s := sticky4(t, "random", 2, AssignUnset)
	l := &noted{Policy: Random()}
	p := s.sessions.over(l).(*sticky)
	among := workers.ListOf(s.workers...)
	attempt := func(x *pipeline.Exchange) string {
		p.Select(x, among)
		p.Ended(x)
		return p.Reason(x)
	}
	require.Equal(t, "because", attempt(request()))
	require.Equal(t, 1, l.ended)
	require.Equal(t, "because", attempt(keyed("K")), "a new key")
	require.Equal(t, 2, l.ended)
	require.Empty(t, attempt(keyed("K")), "a pin")
	require.Equal(t, 2, l.ended)
	require.Equal(t, l.Wants(), p.Wants())
}

// DECISIONS 1, and DESIGN on dry runs: neither a retry nor a dry run moves a key.
func TestRetriesAndDryRunsMoveNoKey(t *testing.T) {
	s := sticky4(t, "round_robin", 3, AssignUnset)
	first := s.pick(keyed("K"))
	s.hold(first, "K")
	s.hold(first, "K")
	for _, with := range []func(*pipeline.Exchange){
		func(x *pipeline.Exchange) { x.Number = 2 },
		func(x *pipeline.Exchange) { x.DryRun = true },
	} {
		for range 5 { // round_robin brings up everybody
			x := keyed("K")
			with(x)
			s.pick(x)
			x = keyed("another")
			with(x)
			s.pick(x)
		}
	}
	require.Equal(t, 1, s.entries())
	require.Equal(t, [2]string{s.named(first).URL(), ""}, s.sessions.shard("K").pins[pinKey{model: "m1", key: "K"}].urls)
	require.Equal(t, 11, branches(s.metrics.KeySource)["header"], "a retry is a decision, a dry run is not")
}
