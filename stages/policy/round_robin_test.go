package policy

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// policies.md, section 5: the checks, in their order.
func TestRoundRobinGivesEveryoneTheirTurn(t *testing.T) {
	registry, all := fleet(t, 3)
	require.Equal(t, []int{0, 1, 2, 0, 1}, picks(t, RoundRobin(), 5, available(registry), all))

	all[1].SetStatus(workers.NotReady)
	require.Equal(t, []int{0, 2, 0, 2}, picks(t, RoundRobin(), 4, available(registry), all))
}

// policies.md, section 5: one counter for all sets would give each of two interleaved sets every second worker only.
func TestRoundRobinRotatesEverySetByItself(t *testing.T) {
	_, all := fleet(t, 8)
	p := RoundRobin()
	prefill, decode := workers.ListOf(all[:4]...), workers.ListOf(all[4:]...)
	var chosen []int
	for range 40 {
		chosen = append(chosen, picks(t, p, 1, prefill, all)...)
		chosen = append(chosen, picks(t, p, 1, decode, all)...)
	}
	require.Equal(t, map[int]int{0: 10, 1: 10, 2: 10, 3: 10, 4: 10, 5: 10, 6: 10, 7: 10}, tally(chosen))
}

// policies.md, section 5: a new set starts one further than the one before, and one that comes back goes on.
func TestRoundRobinGoesOnWhereASetStood(t *testing.T) {
	registry, all := fleet(t, 3)
	p := RoundRobin()
	require.Equal(t, []int{0}, picks(t, p, 1, available(registry), all))
	all[1].SetStatus(workers.NotReady)
	require.Equal(t, []int{2, 0}, picks(t, p, 2, available(registry), all))
	all[1].SetStatus(workers.Ready)
	require.Equal(t, []int{1, 2}, picks(t, p, 2, available(registry), all))
}

// policies.md, section 5: the published list and one that filters have copied are the same set.
func TestRoundRobinKnowsASetByItsMembers(t *testing.T) {
	registry, all := fleet(t, 3)
	p := RoundRobin()
	require.Equal(t, []int{0}, picks(t, p, 1, pool(registry), all))
	require.Equal(t, []int{1}, picks(t, p, 1, available(registry), all))
	require.Equal(t, []int{2}, picks(t, p, 1, workers.ListOf(all...), all))
}

// policies.md, section 5: identity is the registration, not the URL.
func TestRoundRobinTakesAReRegisteredWorkerForANewOne(t *testing.T) {
	registry, all := fleet(t, 2)
	p := RoundRobin()
	require.Equal(t, []int{0, 1}, picks(t, p, 2, pool(registry), all), "the next turn would be the first worker's")
	require.True(t, registry.Remove(all[1]))
	again := worker(t, all[1].URL(), nil)
	require.NoError(t, registry.Add(again))
	require.Equal(t, []int{1}, picks(t, p, 1, pool(registry), []*workers.Worker{all[0], again}), "a new set starts one further")
}

// policies.md, section 5
func TestRoundRobinStartsAnewAfterAReset(t *testing.T) {
	registry, all := fleet(t, 2)
	p := RoundRobin().(*roundRobin)
	require.Equal(t, []int{0, 1}, picks(t, p, 2, pool(registry), all))
	picks(t, p, 1, workers.ListOf(all[1]), all) // would move the start of the next new set
	p.reset()
	require.Equal(t, []int{0}, picks(t, p, 1, pool(registry), all))
}

// policies.md, section 5: at most 4096 sets, the least recently used goes first.
func TestRoundRobinRemembersABoundedNumberOfSets(t *testing.T) {
	const many = rotations + 2
	_, all := fleet(t, 100)
	p := RoundRobin().(*roundRobin)
	used, unused := workers.ListOf(all[:4]...), workers.ListOf(all[4:8]...)
	require.Equal(t, []int{0, 1, 2}, picks(t, p, 3, used, all)) // stands at 3
	require.Equal(t, []int{5, 6}, picks(t, p, 2, unused, all))  // stands at 3 as well: it began at 1
	pairs, turn := 0, 3
	for i := range all {
		for j := range i {
			if pairs == many {
				break
			}
			pairs++
			picks(t, p, 1, workers.ListOf(all[i], all[j]), all)
			if pairs%1000 == 0 {
				require.Equal(t, []int{turn % 4}, picks(t, p, 1, used, all), "a set in use is never forgotten")
				turn++
			}
		}
	}
	require.Equal(t, many, pairs)
	require.Equal(t, rotations, p.sets.Len())
	started := int(p.starts)
	require.Equal(t, many+2, started)
	require.Equal(t, []int{4 + started%4}, picks(t, p, 1, unused, all), "the one that was not used for longest begins anew")
	require.NotEqual(t, 3, started%4, "else it might have gone on where it stood")
}

// policies.md, section 5: the counter is atomic, so no turn is lost or given twice.
func TestRoundRobinIsEvenUnderConcurrency(t *testing.T) {
	registry, all := fleet(t, 5)
	p := RoundRobin()
	other := workers.ListOf(all[1:]...)
	var counts [5]atomic.Int64
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			for range 500 {
				counts[p.Select(&pipeline.Exchange{}, pool(registry))].Add(1)
				p.Select(&pipeline.Exchange{}, other)
			}
		})
	}
	clients.Wait()
	for i := range counts {
		require.EqualValues(t, 1000, counts[i].Load(), "worker %d", i)
	}
}
