package policy

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// scored is how many of four candidates a policy gives a score when it is asked to explain itself. A policy that joins the table
// in names.go joins here too.
var scored = map[string]int{
	"random": 0, "round_robin": 0, "passthrough": 0, "power_of_two": 2, "least_load": 4, "cache_aware": 4, "least_work": 4,
	"consistent_hashing": 0, "prefix_hash": 4, "manual": 0, "bucket": 0,
}

// policies.md, section 2 (what a selection gets and gives), and DESIGN "Explaining": every policy of the table keeps to it.
func TestEveryPolicyKeepsTheContract(t *testing.T) {
	rules := []struct {
		name  string
		check func(t *testing.T, name string)
	}{
		{"it is called what the flag calls it, in any spelling", answersToItsName},
		{"of nobody it chooses nobody", choosesNobodyOfNobody},
		{"of one worker it chooses that one", choosesTheOnlyOne},
		{"it chooses from the list, whatever the list is", choosesFromTheList},
		{"it finds its way back after a list was empty", survivesAnEmptyList},
		{"a choice allocates nothing", allocatesNothing},
		{"many requests may choose at once", choosesConcurrently},
		{"a dry run leaves no trace", dryRunBooksNothing},
		{"what it is for allocates nothing either", worksWithoutAllocating},
		{"many requests with keys and prompts may choose at once", worksConcurrently},
		{"nor does a dry run of a request with a key and a prompt", dryRunsOfWorkBookNothing},
		{"a choice counts nothing with the worker; that is the in-flight stage's", countsNothing},
		{"it explains its scores, if it has any", explainsItsScores},
		{"to be told to forget a worker that it never saw is harmless", forgetsStrangers},
	}
	for _, name := range Names() {
		for _, rule := range rules {
			t.Run(name+"/"+rule.name, func(t *testing.T) { rule.check(t, name) })
		}
	}
}

func newPolicy(t testing.TB, name string) Policy {
	t.Helper()
	p, err := New(name, Settings{}, slog.New(slog.DiscardHandler)) // debug lines, when they are wanted, allocate
	require.NoError(t, err)
	return p
}

func answersToItsName(t *testing.T, name string) {
	for _, spelling := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "_", ""), "_" + name} {
		require.Equal(t, name, newPolicy(t, spelling).Name(), "asked for as %q", spelling)
	}
}

func choosesNobodyOfNobody(t *testing.T, name string) {
	p := newPolicy(t, name)
	require.Equal(t, -1, p.Select(&pipeline.Exchange{}, workers.List{}))
	require.Equal(t, -1, p.Select(&pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}, workers.ListOf()))
}

func choosesTheOnlyOne(t *testing.T, name string) {
	_, all := fleet(t, 3)
	p := newPolicy(t, name)
	for _, w := range all {
		w.Begin() // whatever it has to do: there is nobody else
		require.Equal(t, []int{0, 0, 0}, picks(t, p, 3, workers.ListOf(w), []*workers.Worker{w}))
	}
}

func choosesFromTheList(t *testing.T, name string) {
	registry, all := fleet(t, 9)
	p := newPolicy(t, name)
	for n := 1; n <= len(all); n++ {
		picks(t, p, 50, workers.ListOf(all[:n]...), all)
		picks(t, p, 50, workers.ListOf(all[len(all)-n:]...), all)
	}
	for _, w := range all[:8] {
		picks(t, p, 50, pool(registry), all)
		w.SetStatus(workers.NotReady)
		for _, i := range picks(t, p, 50, available(registry), all) {
			require.True(t, all[i].Ready())
		}
	}
}

func survivesAnEmptyList(t *testing.T, name string) {
	_, all := fleet(t, 2)
	p := newPolicy(t, name)
	for range 5 {
		require.Equal(t, -1, p.Select(&pipeline.Exchange{}, workers.List{}))
		picks(t, p, 1, workers.ListOf(all...), all)
	}
}

func allocatesNothing(t *testing.T, name string) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	registry, all := fleet(t, 100)
	p, x := newPolicy(t, name), &pipeline.Exchange{}
	for _, list := range []workers.List{pool(registry), workers.ListOf(all[10:]...), workers.ListOf(all[0])} {
		p.Select(x, list) // a list that is new to it may be booked
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Select(x, list) }))
	}
}

func choosesConcurrently(t *testing.T, name string) {
	registry, all := fleet(t, 5)
	p := newPolicy(t, name)
	lists := []workers.List{pool(registry), workers.ListOf(all[:2]...), workers.ListOf(all[4])}
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for k := range 500 {
				x := &pipeline.Exchange{DryRun: k%7 == 0}
				if k%5 == 0 {
					x.Explain = &pipeline.Explanation{}
				}
				list := lists[(k+client)%len(lists)]
				i := p.Select(x, list)
				if i < 0 || i >= list.Len() {
					t.Errorf("chose %d of %d", i, list.Len())
					return
				}
				w := list.At(i)
				w.Begin()
				w.End()
				if k%50 == client {
					p.Forget(all[k%len(all)])
				}
			}
		})
	}
	clients.Wait()
}

// dryRunBooksNothing compares two instances, one of which is asked many things in dry runs meanwhile. A policy that draws lots
// has no sequence to compare; it is only asked.
func dryRunBooksNothing(t *testing.T, name string) {
	registry, all := fleet(t, 6)
	p, twin := newPolicy(t, name), newPolicy(t, name)
	fixed := slices.Equal(picks(t, newPolicy(t, name), 40, pool(registry), all), picks(t, newPolicy(t, name), 40, pool(registry), all))
	dry := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
	for n := 1; n < len(all); n++ {
		list := workers.ListOf(all[:n+1]...)
		for k := range 5 {
			for _, other := range []workers.List{list, workers.ListOf(all[k:]...), pool(registry)} {
				i := p.Select(dry, other)
				require.GreaterOrEqual(t, i, 0)
				require.Less(t, i, other.Len())
			}
			foretold := p.Select(dry, list)
			mine, its := picks(t, p, 1, list, all), picks(t, twin, 1, list, all)
			if fixed {
				require.Equal(t, its, mine, "choice %d of %d workers", k, n+1)
				require.Equal(t, foretold, mine[0], "a dry run tells what the next choice would be")
			}
		}
	}
}

func countsNothing(t *testing.T, name string) {
	_, all := fleet(t, 3)
	picks(t, newPolicy(t, name), 30, workers.ListOf(all...), all)
	for _, w := range all {
		require.Zero(t, w.InFlight())
		require.Zero(t, w.Sent())
	}
}

func explainsItsScores(t *testing.T, name string) {
	require.Contains(t, scored, name, "say in scored how many candidates it scores")
	_, all := fleet(t, 4)
	list := workers.ListOf(all...)
	for i, w := range all {
		for range 10 * i {
			w.Begin()
		}
	}
	p := newPolicy(t, name)
	for range 50 {
		x := &pipeline.Exchange{Explain: &pipeline.Explanation{}}
		chosen := list.At(p.Select(x, list))
		require.Len(t, x.Explain.Scores, scored[name])
		requireBest(t, chosen, x.Explain.Scores, list)
	}
}

// requireBest: the scores are of workers on the list, each once and with its parts, and the chosen one has the lowest.
func requireBest(t *testing.T, chosen *workers.Worker, scores []pipeline.Score, list workers.List) {
	t.Helper()
	if len(scores) == 0 {
		return
	}
	seen := map[*workers.Worker]float64{}
	for _, s := range scores {
		require.True(t, list.Contains(s.Worker))
		require.NotContains(t, seen, s.Worker)
		require.NotEmpty(t, s.Parts, "a score says what it is made of")
		seen[s.Worker] = s.Value
	}
	require.Contains(t, seen, chosen)
	for w, value := range seen {
		require.LessOrEqual(t, seen[chosen], value, "%v would have been better than %v", w, chosen)
	}
}

func forgetsStrangers(t *testing.T, name string) {
	_, all := fleet(t, 4)
	p := newPolicy(t, name)
	p.Forget(all[3])
	picks(t, p, 4, workers.ListOf(all[:3]...), all)
	p.Forget(all[3])
	p.Forget(all[3])
	p.Forget(all[0]) // that one it has seen; it may still be on the lists of requests that are on their way
	picks(t, p, 4, workers.ListOf(all[:3]...), all)
}

// policies.md, sections 3 and 18; what this version does not have is an unknown name.
func TestNewKnowsThePoliciesByName(t *testing.T) {
	require.ElementsMatch(t, []string{
		"random", "round_robin", "passthrough", "power_of_two", "least_load", "cache_aware", "least_work",
		"consistent_hashing", "prefix_hash", "manual", "bucket",
	}, Names())
	for _, name := range []string{"", "foo", "roundrobins", "round-robin", "round robin", "rand"} {
		p, err := New(name, Settings{}, nil)
		require.Nil(t, p)
		require.ErrorContains(t, err, "unknown policy")
		for _, known := range Names() {
			require.ErrorContains(t, err, known, "the error says what there is")
		}
	}
	require.Panics(t, func() { Only("foo") })
}
