package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 11 and DECISIONS 14, 42
func TestTheWorkerThatTheClientAsksFor(t *testing.T) {
	const target = "X-Smg-Target-Worker"
	tests := []struct {
		name   string
		value  func(s *site) string
		out    []int // workers that are not ready
		want   string
		branch string
	}{
		{"a number is the place among the available ones", func(*site) string { return "1" }, nil, "w2", "target_worker_hit"},
		{"it is counted from 0", func(*site) string { return "0" }, nil, "w1", "target_worker_hit"},
		{"the number shifts when a worker drops out", func(*site) string { return "0" }, []int{1}, "w2", "target_worker_hit"},
		{"a number too high is a miss", func(*site) string { return "5" }, nil, "none", "target_worker_miss"},
		{"one that was right before a worker dropped out is too", func(*site) string { return "1" }, []int{2}, "none", "target_worker_miss"},
		{"no number", func(*site) string { return "abc" }, nil, "none", "target_worker_miss"},
		{"a sign", func(*site) string { return "-1" }, nil, "none", "target_worker_miss"},
		{"a plus", func(*site) string { return "+1" }, nil, "none", "target_worker_miss"},
		{"a fraction", func(*site) string { return "1.0" }, nil, "none", "target_worker_miss"},
		{"a number that fits nowhere", func(*site) string { return strings.Repeat("9", 40) }, nil, "none", "target_worker_miss"},
		{"a worker's id", func(s *site) string { return s.workers[1].ID().String() }, nil, "w2", "target_worker_hit"},
		{"the id of one that is out", func(s *site) string { return s.workers[1].ID().String() }, []int{2}, "none", "target_worker_miss"},
		{"an id in another form", func(s *site) string { return "{" + s.workers[1].ID().String() + "}" }, nil, "none", "target_worker_miss"},
		{"a worker's URL", func(*site) string { return "http://w2:8000" }, nil, "w2", "target_worker_hit"},
		{"a URL that is not quite its", func(*site) string { return "http://w2:8000/" }, nil, "none", "target_worker_miss"},
		{"the URL of one that is out", func(*site) string { return "http://w1:8000" }, []int{1}, "none", "target_worker_miss"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "consistent_hashing", 2, nil)
			s.down(tt.out...)
			x := request(target, tt.value(s), "X-Smg-Routing-Key", "user-123")
			require.Equal(t, tt.want, s.pick(x))
			require.Equal(t, map[string]int{tt.branch: 1}, branches(s.metrics.ConsistentHashing), "one for each decision; no key takes its place")
			reason := s.For("m1").(Reasoned).Reason(x)
			require.Contains(t, reason, "GET /workers")
			require.NotContains(t, reason, "w1", "DECISIONS 29")
		})
	}
}

// policies.md, section 11: what decides, in order. The owners are those of section 10.
func TestTheKeyThatDecides(t *testing.T) {
	const key, auth, forwarded, cookie = "X-Smg-Routing-Key", "Authorization", "X-Forwarded-For", "Cookie"
	listed := request("X-Session", "user-123")
	listed.Key = pipeline.RoutingKey{Value: "user-123", Source: pipeline.HeaderKey}
	stripped := keyed("conv_t2")
	stripped.Key = pipeline.RoutingKey{Value: "conv", Source: pipeline.HeaderKey, Sent: "conv_t2"}
	tests := []struct {
		name string
		x    *pipeline.Exchange
		want string // "" for anyone
	}{
		{"the routing key", keyed("user-123"), "w3"},
		{"it is used as it is", keyed("conv_t2"), "w3"},
		{"also where sticky sessions have taken its suffix off", stripped, "w3"},
		{"another listed header", listed, "w3"},
		{"the usual header, although the list is another", &pipeline.Exchange{Model: "m1", Client: request(key, "alice").Client}, "w1"},
		{"the rid of the body before the header", ridden("conv", key, "alice"), "w2"},
		{"the header when there is no rid", keyed("alice"), "w1"},
		{"the credential, scheme included", request(auth, "Bearer sk-test"), "w3"},
		{"the address", request(forwarded, "10.0.0.7"), "w3"},
		{"the cookie", request(cookie, "session-abc-123"), "w1"},
		{"the credential before the address", request(auth, "alice", forwarded, "10.0.0.7"), "w1"},
		{"the address before the cookie", request(forwarded, "10.0.0.7", cookie, "alice"), "w3"},
		{"a key before the credential", request(key, "carol", auth, "Bearer sk-test"), "w2"},
		{"an empty credential is passed over", request(auth, "", forwarded, "alice"), "w1"},
		{"one that is no UTF-8 too", request(auth, "\xff", cookie, "alice"), "w1"},
		{"a key that is too long is none", request(key, strings.Repeat("k", 129), auth, "Bearer sk-test"), "w3"},
		{"the longest key", keyed(strings.Repeat("k", 128)), "w3"},
		{"a credential may be longer", request(auth, strings.Repeat("k", 500)), "w" + order(newRing(named(t, "w1", "w2", "w3")), strings.Repeat("k", 500))[1:2]},
		{"nothing but a key that is too long", keyed(strings.Repeat("k", 129)), ""},
		{"an empty key", keyed(""), ""},
		{"nothing at all", request(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "consistent_hashing", 3, nil)
			seen := map[string]int{}
			for range 40 {
				seen[s.pick(tt.x)]++
			}
			if tt.want == "" {
				require.Greater(t, len(seen), 1)
				require.Equal(t, map[string]int{"random_fallback": 40}, branches(s.metrics.ConsistentHashing))
				return
			}
			require.Equal(t, map[string]int{tt.want: 40}, seen)
			require.Equal(t, map[string]int{"routing_key_hit": 40}, branches(s.metrics.ConsistentHashing))
		})
	}
}

// policies.md, sections 10 and 11: a key goes to the next clockwise while its owner is out, by health, breaker or overload.
func TestAKeyComesBackToItsOwner(t *testing.T) {
	s := newSite(t, "consistent_hashing", 3, nil)
	require.Equal(t, "w3", s.pick(keyed("user-123")))
	s.down(3)
	for range 5 {
		require.Equal(t, "w1", s.pick(keyed("user-123")))
	}
	s.up(3)
	require.Equal(t, "w3", s.pick(keyed("user-123")))
	require.Equal(t, "w2", s.pick(keyed("user-veto")))
	s.workers[1].SetOverloaded(true)
	require.Equal(t, "w1", s.pick(keyed("user-veto")))
	require.Equal(t, "none", s.pick(request("X-Smg-Target-Worker", "http://w2:8000")), "to ask for it does not help")
	s.down(1, 3)
	require.Equal(t, "none", s.pick(keyed("user-veto")))
	require.Equal(t, 1, branches(s.metrics.ConsistentHashing)["no_healthy_workers"])
}

// policies.md, section 11: no ring.
func TestWithoutARingKeysAreCountedOff(t *testing.T) {
	p := ConsistentHashing(Settings{})
	among := workers.ListOf(named(t, "w1", "w2", "w3")...)
	for key, want := range map[string]int{"user-123": 0, "carol": 1, "session-abc-123": 2} {
		require.Equal(t, want, p.Select(keyed(key), among), key)
	}
}

// DECISIONS 14: an attempt goes to the worker that the first one went to, or to none: its number may be another's by then.
func TestARetryStaysWithTheWorkerThatTheClientAsksFor(t *testing.T) {
	s := newSite(t, "consistent_hashing", 3, nil)
	x := request("X-Smg-Target-Worker", "1")
	x.BeginAttempt()
	require.Equal(t, "w2", s.pick(x))
	require.True(t, Pinned.Get(x).Only)
	s.down(1)
	x.BeginAttempt()
	require.Equal(t, "w2", s.pick(x))
	s.down(2)
	x.BeginAttempt()
	require.Equal(t, "none", s.pick(x))
}

// DESIGN, "Explaining": every candidate's distance, the chosen one's is the least.
func TestConsistentHashingExplainsDistances(t *testing.T) {
	s := newSite(t, "consistent_hashing", 5, nil)
	s.down(2)
	for k := range 20 {
		x := keyed(fmt.Sprintf("user-%d", k))
		x.Explain, x.DryRun = &pipeline.Explanation{}, true
		name := s.pick(x)
		require.Len(t, x.Explain.Scores, 4)
		requireBest(t, s.named(name), x.Explain.Scores, x.Candidates)
		require.Equal(t, "ring_distance", x.Explain.Scores[0].Parts[0].Name)
		require.Less(t, x.Explain.Scores[3].Value, 1.0)
	}
	require.Empty(t, branches(s.metrics.ConsistentHashing), "a dry run is no decision")
}

// Nothing is allocated for a key, whoever is out.
func TestALookUpAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	s := newSite(t, "consistent_hashing", 50, nil)
	x := keyed("user-123")
	for _, left := range []int{50, 25, 3} {
		among := workers.ListOf(s.workers[:left]...)
		p := s.For("m1")
		p.Select(x, among)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Select(x, among) }))
	}
}
