package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// policies.md, section 10: positions.
func TestPositionsAreThoseOfTheSheet(t *testing.T) {
	for key, want := range map[string]uint64{
		"": 0xa6a1f9f5b94913af, "http://w1:8000#0": 398919467026491217, "http://w1:8000#149": 0x9301ee719453d575, "user-123": 0x54b3e313138adb57,
	} {
		require.Equal(t, want, position(key), "%q", key)
	}
	long := strings.Repeat("k", 1000)
	require.Equal(t, positionOf([]byte(long)), position(long))
	require.NotEqual(t, position(long[:128]), position(long), "all of a long key counts")
}

func named(t testing.TB, labels ...string) []*workers.Worker {
	t.Helper()
	var all []*workers.Worker
	for _, l := range labels {
		all = append(all, worker(t, "http://"+l+":8000", nil))
	}
	return all
}

// order are the owners of a key, clockwise.
func order(r *ring, key string) string {
	var all []string
	for c := r.from(position(key)); ; {
		p, ok := c.next()
		if !ok {
			return strings.Join(all, ",")
		}
		if name := label(r.owners[p.owner]); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
}

// policies.md, section 10: the clockwise order of distinct owners.
func TestKeysHaveTheOwnersOfTheSheet(t *testing.T) {
	r := newRing(named(t, "w1", "w2", "w3"))
	for key, want := range map[string]string{
		"user-123": "w3,w1,w2", "session-abc-123": "w1,w2,w3", "user-veto": "w2,w1,w3", "Bearer sk-test": "w3,w1,w2", "10.0.0.7": "w3,w2,w1",
		strings.Repeat("k", 128): "w3,w2,w1", "alice": "w1,w3,w2", "bob": "w3,w1,w2", "carol": "w2,w3,w1", "conv": "w2,w3,w1", "conv_t2": "w3,w1,w2",
	} {
		require.Equal(t, want, order(r, key), key)
	}
}

// flat are all points in order, with the labels of their owners.
func flat(r *ring) (all []string) {
	if r == nil {
		return nil
	}
	before := uint64(0)
	for i, arc := range r.arcs {
		for _, p := range arc {
			if p.at < before || r.arcOf(p.at) != i {
				panic(fmt.Sprintf("%x is out of order", p.at))
			}
			before = p.at
			all = append(all, fmt.Sprintf("%x %s", p.at, r.owners[p.owner]))
		}
	}
	return all
}

// policies.md, section 10: virtual nodes; repeated URLs count once.
func TestARingHas150PointsForEachURL(t *testing.T) {
	all := named(t, "w1", "w2", "w3", "w1")
	require.Len(t, flat(newRing(all[:3])), 450)
	require.Equal(t, flat(newRing(all[:1])), flat(newRing([]*workers.Worker{all[0], all[3]})))
	require.Len(t, flat(newRing(all[:1])), 150)
	require.Equal(t, -1, newRing(nil).find(position("k"), workers.ListOf(all...)), "an empty ring has no answer")
	require.Equal(t, -1, newRing(all[:2]).find(position("k"), workers.ListOf()), "of nobody it finds nobody")
	require.Equal(t, -1, newRing(all[:2]).find(position("k"), workers.ListOf(all[2])), "nor a stranger")
}

// owners are who has user-0 to user-999 on a ring.
func ownersOfUsers(r *ring, among []*workers.Worker) (all []string) {
	for i := range 1000 {
		all = append(all, label(among[r.find(position(fmt.Sprintf("user-%d", i)), workers.ListOf(among...))]))
	}
	return all
}

func countOf(all []string) map[string]int {
	counts := map[string]int{}
	for _, name := range all {
		counts[name]++
	}
	return counts
}

// policies.md, section 10: how keys are spread, and which of them move.
func TestAWorkerThatComesOrGoesMovesItsOwnKeysAlone(t *testing.T) {
	all := named(t, "w1", "w2", "w3", "w4")
	three := newRing(all[:3])
	before := ownersOfUsers(three, all[:3])
	require.Equal(t, map[string]int{"w1": 332, "w2": 312, "w3": 356}, countOf(before))

	after := ownersOfUsers(three.with(all[3]), all)
	require.Equal(t, map[string]int{"w1": 244, "w2": 235, "w3": 270, "w4": 251}, countOf(after))
	for i := range after {
		if after[i] != before[i] {
			require.Equal(t, "w4", after[i])
		}
	}

	left := ownersOfUsers(three.without(all[2]), all[:2])
	require.Equal(t, left, ownersOfUsers(three, all[:2]), "whether it is gone or out")
	for i := range left {
		require.Equal(t, before[i] == "w3", left[i] != before[i])
	}
}

// policies.md, section 10: a diff update equals a full build, and changes nothing of the ring that it is made from.
func TestAnUpdatedRingIsTheOneBuiltAnew(t *testing.T) {
	var labels []string
	for i := range 16 {
		labels = append(labels, fmt.Sprintf("w%d", i))
	}
	all := named(t, labels...)
	var r *ring
	for i, w := range all {
		was, before := r, flat(r)
		r = r.with(w)
		require.Equal(t, flat(newRing(all[:i+1])), flat(r))
		require.Equal(t, i+1, r.count)
		require.Equal(t, before, flat(was))
	}
	require.Greater(t, len(r.arcs), 1, "or the arcs are not tested")
	for i, w := range all[:15] {
		was, before := r, flat(r)
		r = r.without(w)
		require.Equal(t, flat(newRing(all[i+1:])), flat(r))
		require.Equal(t, before, flat(was))
	}
	require.Equal(t, flat(newRing([]*workers.Worker{all[15], all[0]})), flat(r.with(all[0])), "a free number is used again")
	require.Len(t, r.with(all[0]).owners, len(r.owners))
	require.Nil(t, r.without(all[15]))
}

// policies.md, section 10: unchanged membership does not rebuild.
func TestANewRevisionOfAWorkerTakesItsPoints(t *testing.T) {
	all := named(t, "w1", "w2", "w1")
	r := newRing(all[:2])
	next := r.with(all[2])
	require.Equal(t, all[2], next.owners[0])
	require.Equal(t, all[0], r.owners[0])
	require.Same(t, &r.arcs[0], &next.arcs[0])
	require.Same(t, next, next.without(all[0]), "the revision before is not on it any more")
	require.Same(t, r, r.without(named(t, "w9")[0]))
}

// A ring finds the same worker as a look at every point, whoever is out: few, many or nearly all.
func TestALookUpPassesEveryWorkerOnce(t *testing.T) {
	var labels []string
	for i := range 60 {
		labels = append(labels, fmt.Sprintf("w%d", i))
	}
	all := named(t, labels...)
	r := newRing(all)
	for step := 1; step <= len(all); step += 7 {
		var left []*workers.Worker
		for i := 0; i < len(all); i += step {
			left = append(left, all[i])
		}
		for k := range 50 {
			key := fmt.Sprintf("key-%d", k)
			first := -1
			for c := r.from(position(key)); first < 0; {
				p, _ := c.next()
				first = slices.Index(left, r.owners[p.owner])
			}
			require.Equal(t, first, r.find(position(key), workers.ListOf(left...)))
		}
	}
}

// policies.md, section 10: a ring of each model, and one of all workers, each of them once.
func TestRingsFollowTheRegistry(t *testing.T) {
	s := newSite(t, "consistent_hashing", 0, nil)
	roster := s.settings.roster
	require.Nil(t, roster.ring(""))
	require.Nil(t, roster.ring("m1"))
	s.add("http://w1:8000", "m1")
	require.Equal(t, flat(roster.ring("m1")), flat(roster.ring("")), "with one model they are equal")
	two := s.add("http://w2:8000", "m1")
	s.add("http://w3:8000", "m2")
	require.Len(t, flat(roster.ring("m1")), 300)
	require.Len(t, flat(roster.ring("m2")), 150)
	require.Equal(t, flat(newRing(s.workers)), flat(roster.ring("")))

	spec := workers.NewSpec("http://w4:8000")
	spec.WorkerType, spec.Labels = workers.Decode, map[string]string{"model_id": "m2"}
	decode, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	require.NoError(t, s.registry.Add(decode))
	require.Len(t, flat(roster.ring("m2")), 300, "of any type")
	s.add("http://w5:8000", "")
	require.Len(t, flat(roster.ring("m9")), 150, "a model that nobody names is served by those that take every model")

	before := roster.rings.Load()
	s.down(1, 2)
	require.Same(t, before, roster.rings.Load(), "of any availability")
	require.True(t, s.registry.Remove(two))
	require.Equal(t, flat(newRing(s.workers[:1])), flat(roster.ring("m1")))
	require.True(t, s.registry.Remove(s.workers[0]))
	require.Len(t, flat(roster.ring("m1")), 150, "nobody has it any more, so that those serve it which take every model")
}

// policies.md, section 18: a replacement under the same URL may bring another model.
func TestAReplacedWorkerMovesToItsNewModelsRing(t *testing.T) {
	s := newSite(t, "consistent_hashing", 2, nil)
	roster := s.settings.roster
	now := worker(t, "http://w1:8000", map[string]string{"model_id": "m2"})
	s.WorkerReplaced(s.workers[0], now)
	require.Len(t, flat(roster.ring("m1")), 150)
	require.Len(t, flat(roster.ring("m2")), 150)
	require.Len(t, flat(roster.ring("")), 300)
	w, known := roster.find("http://w1:8000")
	require.True(t, known)
	require.Same(t, now, w)
}

// DESIGN 1: no ring is built for policies that look nothing up; the first that does finds everybody on it.
func TestRingsAreBuiltForThoseThatUseThem(t *testing.T) {
	s := newSite(t, "random", 3, nil)
	require.Nil(t, s.settings.roster.rings.Load())
	w := worker(t, "http://w4:8000", map[string]string{"model_id": "m2", "policy": "consistent_hashing"})
	require.NoError(t, s.registry.Add(w))
	require.Equal(t, flat(newRing(append(slices.Clone(s.workers), w))), flat(s.settings.roster.ring("")))
	require.Equal(t, flat(newRing(s.workers)), flat(s.settings.roster.ring("m1")))
}
