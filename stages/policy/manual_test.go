package policy

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// pinsOf are the pins of manual, or of the sessions.
func (s *site) pinsOf() *pins {
	if m, ok := s.Default().(*manual); ok {
		return m.pins
	}
	return s.sessions.pins
}

func (s *site) entries() int { return int(s.pinsOf().entries.Load()) }

// policies.md, section 13: "key K first -> vacant (worker A); 10 more -> occupied_hit A".
func TestManualKeepsAKeyWhereItIs(t *testing.T) {
	s := newSite(t, "manual", 5, nil)
	first := s.pick(keyed("K"))
	require.Equal(t, map[string]int{"vacant": 1}, branches(s.metrics.Manual))
	for range 10 {
		require.Equal(t, first, s.pick(keyed("K")))
	}
	require.Equal(t, map[string]int{"vacant": 1, "occupied_hit": 10}, branches(s.metrics.Manual))
	require.EqualValues(t, 1, testutil.ToFloat64(s.metrics.ManualEntries))
	s.add("http://w6:8000", "m1")
	require.Equal(t, first, s.pick(keyed("K")), "a new worker moves no key")
}

// policies.md, section 13: fail-back, two workers at most, the oldest goes first.
func TestManualRemembersTwoWorkers(t *testing.T) {
	s := newSite(t, "manual", 3, nil)
	number := func(name string) int { return int(name[1] - '0') }
	a := s.pick(keyed("K"))
	s.down(number(a))
	b := s.pick(keyed("K"))
	require.NotEqual(t, a, b)
	s.up(number(a))
	require.Equal(t, a, s.pick(keyed("K")), "it comes back")
	require.Equal(t, map[string]int{"vacant": 1, "occupied_miss": 1, "occupied_hit": 1}, branches(s.metrics.Manual))

	s.down(number(a), number(b))
	c := s.pick(keyed("K"))
	require.NotContains(t, []string{a, b}, c)
	s.up(number(a))
	require.Equal(t, c, s.pick(keyed("K")), "the oldest was forgotten")
	s.up(number(b))
	require.Equal(t, b, s.pick(keyed("K")))
	require.Equal(t, 1, s.entries())
}

// policies.md, section 13: what a key is, and that nothing is kept without one.
func TestManualReadsOneHeader(t *testing.T) {
	listed := request("X-Session", "K")
	listed.Key = pipeline.RoutingKey{Value: "K", Source: pipeline.HeaderKey}
	clientless := &pipeline.Exchange{Model: "m1", Key: pipeline.RoutingKey{Value: "K", Source: pipeline.HeaderKey}}
	tests := []struct {
		name  string
		x     *pipeline.Exchange
		keyed bool
	}{
		{"the header", keyed("K"), true},
		{"the longest", keyed(strings.Repeat("k", 128)), true},
		{"the rid", ridden("K"), true},
		{"the key of a program without a client", clientless, true},
		{"no header", request(), false},
		{"an empty one", keyed(""), false},
		{"one that is too long", keyed(strings.Repeat("k", 129)), false},
		{"no UTF-8", keyed("\xff"), false},
		{"another header, although it is listed", listed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "manual", 2, nil)
			seen := map[string]int{}
			for range 100 {
				seen[s.pick(tt.x)]++
			}
			if tt.keyed {
				require.Len(t, seen, 1)
				require.Equal(t, 1, s.entries())
				return
			}
			require.Len(t, seen, 2)
			require.Equal(t, map[string]int{"no_routing_id": 100}, branches(s.metrics.Manual))
			require.Zero(t, s.entries())
		})
	}
}

// policies.md, sections 13 and 14.3: the rid comes before the header, and the header is not stripped.
func TestManualPutsTheRidFirst(t *testing.T) {
	s := newSite(t, "manual", 8, nil)
	first := s.pick(ridden("conv42"))
	for i := range 20 {
		require.Equal(t, first, s.pick(ridden("conv42", "X-Smg-Routing-Key", fmt.Sprint("other-", i))))
	}
	require.Equal(t, 1, s.entries())
	s.pick(keyed("conv42_t1"))
	require.Equal(t, 2, s.entries())
}

// policies.md, section 13: the pins of the legs are independent, those of the models are not told apart.
func TestManualPinsEachLeg(t *testing.T) {
	s := newSite(t, "manual", 0, nil)
	leg := func(typ workers.Type, from int) workers.List {
		var all []*workers.Worker
		for i := range 4 {
			spec := workers.NewSpec(fmt.Sprintf("http://w%d:8000", from+i))
			spec.WorkerType = typ
			w, err := workers.New(spec, workers.DefaultSettings())
			require.NoError(t, err)
			all = append(all, w)
		}
		return workers.ListOf(all...)
	}
	prefill, decode := leg(workers.Prefill, 1), leg(workers.Decode, 5)
	x := keyed("K")
	p, d := s.choose(x, prefill), s.choose(x, decode)
	require.Equal(t, 2, s.entries())
	for range 10 {
		require.Equal(t, p, s.choose(x, prefill))
		require.Equal(t, d, s.choose(x, decode))
	}
	require.Equal(t, map[string]int{"vacant": 2, "occupied_hit": 20}, branches(s.metrics.Manual))
	x.Model = "m2"
	require.Equal(t, p, s.choose(x, prefill))
	s.choose(keyed("prefill:K"), decode)
	require.Equal(t, 3, s.entries(), "whatever a key looks like")
}

// policies.md, section 13: the modes.
func TestManualAssignsByMode(t *testing.T) {
	by := func(mode Assignment) *site {
		return newSite(t, "manual", 3, func(s *Settings) { s.Assignment = mode })
	}
	for _, mode := range []Assignment{AssignMinLoad, AssignDelegate} {
		s := by(mode)
		busy(s.workers[0], 2)
		busy(s.workers[1], 1)
		require.Equal(t, "w3", s.pick(keyed("K")), mode)
		busy(s.workers[2], 1)
		s.down(1)
		seen := map[string]bool{}
		for range 100 {
			seen[s.pick(request())] = true
		}
		require.Equal(t, map[string]bool{"w2": true, "w3": true}, seen, "chance breaks ties")
	}

	s := by(AssignMinGroup)
	s.workers[0].BeginKey("a")
	s.workers[0].BeginKey("b")
	s.workers[1].BeginKey("c")
	s.workers[1].BeginKey("c")
	busy(s.workers[2], 7)
	require.Equal(t, "w3", s.pick(keyed("K")), "keys count, not requests")

	s = by(AssignMinGroup)
	for i := range 9 {
		key := fmt.Sprint("new-", i)
		s.named(s.pick(keyed(key))).BeginKey(key)
	}
	for _, w := range s.workers {
		require.EqualValues(t, 3, w.ActiveKeys())
	}

	s = by(AssignUnset)
	busy(s.workers[0], 9)
	seen := map[string]bool{}
	for i := range 200 {
		seen[s.pick(keyed(fmt.Sprint("key-", i)))] = true
	}
	require.Len(t, seen, 3, "at random, unless the flag says otherwise")
}

// policies.md, section 13: eviction, and what counts as a use.
func TestIdlePinsAreSweptAway(t *testing.T) {
	s := newSite(t, "manual", 2, func(s *Settings) { s.MaxIdle, s.EvictionInterval = 10*time.Second, 2*time.Second })
	m := s.Default().(*manual)
	after := func(d time.Duration) int {
		s.now = s.now.Add(d)
		m.Upkeep(s.now)
		return s.entries()
	}
	s.pick(keyed("K"))
	require.Equal(t, 1, after(9*time.Second))
	require.Equal(t, 0, after(2*time.Second), "after a vacant choice")

	s.pick(keyed("K"))
	require.Equal(t, 1, after(9*time.Second))
	s.pick(keyed("K"))
	require.Equal(t, 1, after(9*time.Second), "a hit is a use")
	s.down(int(s.pick(keyed("K"))[1] - '0'))
	require.Equal(t, 1, after(9*time.Second))
	s.pick(keyed("K"))
	require.Equal(t, 1, after(9*time.Second), "a miss is a use")
	dry := keyed("K")
	dry.DryRun = true
	s.pick(dry)
	require.Equal(t, 0, after(2*time.Second), "a dry run is none")
	require.Zero(t, testutil.ToFloat64(s.metrics.ManualEntries))

	lines := s.lines("pins of idle routing keys were removed")
	require.Len(t, lines, 2)
	require.EqualValues(t, 1, lines[0]["removed"])
	require.EqualValues(t, 0, lines[0]["remaining"])
}

// policies.md, section 13: either value 0, no sweep, and a warning at the start.
func TestPinsAreKeptForEverIfTheyAreTo(t *testing.T) {
	for name, with := range map[string]func(*Settings){
		"no interval": func(s *Settings) { s.EvictionInterval = 0 },
		"no limit":    func(s *Settings) { s.MaxIdle = 0 },
	} {
		s := newSite(t, "manual", 2, with)
		s.pick(keyed("K"))
		s.now = s.now.Add(1000 * time.Hour)
		s.Default().(*manual).Upkeep(s.now)
		require.Equal(t, 1, s.entries(), name)
		require.Len(t, s.said.at(t, slog.LevelWarn), 1, name)
	}
	require.Empty(t, newSite(t, "manual", 2, nil).said.at(t, slog.LevelWarn))
}

// policies.md, section 13: nobody is left.
func TestManualKeepsThePinOfAnOutage(t *testing.T) {
	s := newSite(t, "manual", 1, nil)
	require.Equal(t, "w1", s.pick(keyed("K")))
	s.down(1)
	require.Equal(t, "none", s.pick(keyed("K")))
	require.Equal(t, map[string]int{"vacant": 1, "no_healthy_workers": 1}, branches(s.metrics.Manual))
	require.Equal(t, 1, s.entries())
}

// policies.md, section 13: a removed worker's URL stops matching, and matches again if it returns.
func TestManualKnowsWorkersByTheirURL(t *testing.T) {
	s := newSite(t, "manual", 2, func(s *Settings) { s.Assignment = AssignMinLoad })
	busy(s.workers[1], 1)
	require.Equal(t, "w1", s.pick(keyed("K")))
	require.True(t, s.registry.Remove(s.workers[0]))
	require.Equal(t, "w2", s.pick(keyed("K")))
	s.add("http://w1:8000", "m1")
	require.Equal(t, "w1", s.pick(keyed("K")))
	require.Equal(t, map[string]int{"vacant": 1, "occupied_miss": 1, "occupied_hit": 1}, branches(s.metrics.Manual))
}

// policies.md, section 13: read, check, assign and store are one step.
func TestFirstRequestsOfAKeyAtOnceGetOneWorker(t *testing.T) {
	s := newSite(t, "manual", 8, nil)
	among := workers.ListOf(s.workers...)
	for round := range 50 {
		var places [8]int
		var asking sync.WaitGroup
		for i := range places {
			asking.Go(func() { places[i] = s.Default().Select(keyed(fmt.Sprint("key-", round)), among) })
		}
		asking.Wait()
		for _, p := range places {
			require.Equal(t, places[0], p)
		}
	}
	require.Equal(t, 50, s.entries())
}

// DECISIONS 1: what a retry picks stores no pin; a pinned choice says so.
func TestWhatARetryPicksIsNotPinned(t *testing.T) {
	s := newSite(t, "manual", 3, nil)
	x := keyed("K")
	x.BeginAttempt()
	first := s.pick(x)
	require.Equal(t, Pin{Worker: s.named(first)}, Pinned.Get(x))
	x.BeginAttempt()
	s.down(int(first[1] - '0'))
	require.NotEqual(t, first, s.pick(x))
	require.Equal(t, Pin{Worker: s.named(first)}, Pinned.Get(x))
	s.up(1, 2, 3)
	require.Equal(t, first, s.pick(keyed("K")))

	fresh := keyed("L")
	fresh.BeginAttempt()
	fresh.BeginAttempt()
	s.pick(fresh)
	require.Equal(t, 1, s.entries())
	require.Zero(t, Pinned.Get(fresh))
	keyless := request()
	s.pick(keyless)
	require.Zero(t, Pinned.Get(keyless))
}

// DESIGN, "Explaining" and dry runs.
func TestManualExplainsAPin(t *testing.T) {
	s := newSite(t, "manual", 3, func(s *Settings) { s.Assignment = AssignMinLoad })
	busy(s.workers[0], 1)
	dry := func() (string, *pipeline.Explanation) {
		x := keyed("K")
		x.DryRun, x.Explain = true, &pipeline.Explanation{}
		return s.pick(x), x.Explain
	}
	_, e := dry()
	require.Len(t, e.Scores, 3, "a new key goes to one with least in flight")
	require.Zero(t, s.entries())
	require.Empty(t, branches(s.metrics.Manual))
	first := s.pick(keyed("K"))
	name, e := dry()
	require.Equal(t, first, name)
	require.Equal(t, []pipeline.Score{{Worker: s.named(first), Parts: []pipeline.Part{{Name: "pinned", Value: 1}}}}, e.Scores)
}

// A known key allocates nothing.
func TestAKnownKeyAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	for name, with := range map[string]func(*Settings){"manual": nil, "random": func(s *Settings) { s.Sticky = true }} {
		s := newSite(t, name, 20, with)
		x, among := keyed("K"), workers.ListOf(s.workers...)
		p := s.For("m1")
		p.Select(x, among)
		s.said.mu.Lock()
		s.said.buf.Reset()
		s.said.mu.Unlock()
		if with != nil {
			s.sessions.log = slog.New(slog.DiscardHandler)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Select(x, among) }), name)
	}
}
