package replay

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/stages/policy"
)

// small is a fleet of four.
func small() fleet { return fleet{size: 4, gateways: 1, every: 10 * time.Second, seed: 1} }

// bench is a lab for a workload of small size.
func bench(t *testing.T, f fleet, name string) *lab {
	t.Helper()
	w, err := NewWorkload(name, f.size, f.seed, 0.05)
	require.NoError(t, err)

	return &lab{crew: newCrew(), c: Config{Settings: Defaults()}, fleet: f, w: w, began: time.Now()}
}

// least-work.md, section 4: cache and in-flight accounts end at exactly 0; play returns an error if they do not.
func TestTheAccountsEndAtZero(t *testing.T) {
	for _, workload := range []string{"conv", "shared", "sessions", "bursts", "hot"} {
		for _, name := range append([]string{Oracle}, policy.Names()...) {
			t.Run(workload+"/"+name, func(t *testing.T) {
				l := bench(t, small(), workload)
				r, err := l.play(t.Context(), name, l.w.Guess*float64(l.fleet.size), false)
				require.NoError(t, err)
				if l.w.Lasts == 0 { // else those that would come later do not come
					require.Equal(t, r.requests, r.begun, "all that came were sent")
				}
				require.Positive(t, len(r.stats.ttft))
				require.Len(t, r.stats.e2e, len(r.stats.ttft))
			})
		}
	}
}

// Deterministic for a seed.
func TestASeedGivesTheSameFiguresEveryTime(t *testing.T) {
	for _, name := range append([]string{Oracle}, policy.Names()...) {
		t.Run(name, func(t *testing.T) {
			var first result
			for k := range 2 {
				l := bench(t, small(), "sessions")
				r, err := l.play(t.Context(), name, l.w.Guess*4, false)
				require.NoError(t, err)
				if k == 0 {
					first = r.stats.result()
				}
				require.Equal(t, first, r.stats.result())
			}
			l := bench(t, fleet{size: 4, gateways: 1, every: 10 * time.Second, seed: 2}, "sessions")
			r, err := l.play(t.Context(), name, l.w.Guess*4, false)
			require.NoError(t, err)
			require.NotEqual(t, first, r.stats.result(), "another seed is another run")
		})
	}
}

// least-work.md, section 4, self-check: one engine, unique prompts and one output token are an M/D/1 queue. That the engine's mean wait is
// that of the formula is tested with the engine; here the whole simulator stands around it, and the waits are those of Lindley's
// recursion over the same arrivals.
func TestASimulationOfOneEngineIsAnMD1Queue(t *testing.T) {
	const service = 0.064 // seconds: 1,024 tokens, one chunk
	for _, load := range []float64{0.3, 0.5, 0.7, 0.85} {
		w := &Workload{Name: "md1", Limit: time.Hour, KVTokens: 400_000, Page: pageTokens}
		b := &builder{w: w, rng: rand.New(rand.NewPCG(11, 3))}
		for range 20_000 {
			b.arrive(&Request{Prompt: []Segment{b.fresh(1024)}, Output: 1})
		}
		w.normalize()
		l := &lab{crew: newCrew(), c: Config{Settings: Defaults()}, fleet: fleet{size: 1, gateways: 1, seed: 1}, w: w, began: time.Now()}
		r, err := l.play(t.Context(), "random", load/service, false)
		require.NoError(t, err)

		sum, n, wait, last := 0.0, 0, 0.0, 0.0
		for _, q := range w.Roots {
			at := q.At * service / load
			if last > 0 {
				wait = max(0, wait+service-(at-last))
			}
			if last = at; at >= warmup*r.ends.Seconds() {
				sum, n = sum+wait, n+1
			}
		}
		require.InDelta(t, float64(n), float64(len(r.stats.ttft)), 1)
		got := r.stats.result().mean - service
		require.Less(t, math.Abs(got/(sum/float64(n))-1), 0.001, "load %g: a wait of %g s instead of %g s", load, got, sum/float64(n))
	}
}

// What the flags change can be seen.
func TestWhatChangesTheFleetChangesTheFigures(t *testing.T) {
	rate := 0.9
	play := func(name string, change func(*fleet)) result {
		f := small()
		change(&f)
		l := bench(t, f, "hot")
		r, err := l.play(t.Context(), name, rate*l.w.Guess*4, false)
		require.NoError(t, err)
		return r.stats.result()
	}
	even := play("power_of_two", func(*fleet) {})
	require.Greater(t, play("random", func(f *fleet) { f.slow = true }).p99, play("random", func(*fleet) {}).p99, "a slow engine")
	require.NotEqual(t, even, play("power_of_two", func(f *fleet) { f.gateways = 3 }), "several gateways")
	require.NotEqual(t, even, play("power_of_two", func(f *fleet) { f.every = time.Second }), "fresher reports")
	require.NotEqual(t, even, play("power_of_two", func(f *fleet) { f.every = 0 }), "no reports")
	require.NotEqual(t, play("least_work", func(*fleet) {}), play("least_work", func(f *fleet) { f.tokenError = 0.3 }), "wrong counts")
}

// least-work.md, section 5: random is far behind what one pooled cache carries, and nothing is before it by more than the search is
// fine.
func TestTheOracleCarriesMost(t *testing.T) {
	l := bench(t, small(), "hot")
	best, err := l.capacity(t.Context(), Oracle, l.w.Guess*4)
	require.NoError(t, err)
	for _, name := range []string{"random", "least_work"} {
		c, err := l.capacity(t.Context(), name, best)
		require.NoError(t, err)
		require.Positive(t, c)
		require.LessOrEqual(t, c, 1.05*best, name)
	}
}

// The search ends at a rate that is carried, next to one that is not.
func TestCapacityIsTheHighestRateThatIsCarried(t *testing.T) {
	for _, hint := range []float64{0.2, 1, 5} {
		l := bench(t, small(), "shared")
		c, err := l.capacity(t.Context(), "round_robin", hint*l.w.Guess*4)
		require.NoError(t, err)
		carried, err := l.play(t.Context(), "round_robin", c, false)
		require.NoError(t, err)
		require.LessOrEqual(t, carried.stats.result().p90, l.w.Limit.Seconds())
		over, err := l.play(t.Context(), "round_robin", 1.1*c, false)
		require.NoError(t, err)
		require.Greater(t, over.stats.result().p90, l.w.Limit.Seconds())
	}
}

// A run that is given up early would have failed.
func TestARunIsGivenUpOnlyWhenItIsCertain(t *testing.T) {
	l := bench(t, small(), "shared")
	rate := 3 * l.w.Guess * 4
	short, err := l.play(t.Context(), "random", rate, true)
	require.NoError(t, err)
	require.Less(t, short.begun+len(short.stats.e2e), 2*short.requests, "it stopped early")
	whole, err := l.play(t.Context(), "random", rate, false)
	require.NoError(t, err)
	require.Greater(t, whole.stats.result().p90, l.w.Limit.Seconds())
}

// First tokens that are known to be late before they come count once, and only those.
func TestTheVerdictOfASearchIsThatOfTheWholeRun(t *testing.T) {
	verdicts, some := map[bool]int{}, 0
	for _, name := range []string{"shared", "sessions", "bursts", "hot"} {
		l := bench(t, small(), name)
		limit := l.w.Limit.Seconds()
		for load := 0.3; load < 1.6; load += 0.05 {
			rate := load * l.w.Guess * 4
			search, err := l.play(t.Context(), "random", rate, true)
			require.NoError(t, err)
			whole, err := l.play(t.Context(), "random", rate, false)
			require.NoError(t, err)
			over := whole.stats.result().p90 > limit
			require.Equal(t, over, search.late() || search.stats.result().p90 > limit, "%s at %g", name, load)
			verdicts[over]++

			late := 0
			for _, ttft := range whole.stats.ttft {
				if ttft > limit {
					late++
				}
			}
			require.Equal(t, late, whole.stats.late)
			if search.late() {
				require.LessOrEqual(t, search.stats.late, late)
			} else {
				require.Equal(t, late, search.stats.late)
				some += late
			}
		}
	}
	require.Len(t, verdicts, 2, "some rates are carried and some are not")
	require.Positive(t, some, "some first tokens are late at rates that are carried")
}
