package policy

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// cached is cache_aware with the defaults of the command line, over a fleet.
type cached struct {
	*cacheAware
	t       testing.TB
	all     []*workers.Worker
	list    workers.List
	metrics *telemetry.PolicyMetrics
	said    *records
	last    *pipeline.Exchange // of the last choice
}

// cacheDefaults are those of the command line: cache-aware.md, section 4.
func cacheDefaults() Settings {
	return Settings{
		CacheThreshold: 0.3, BalanceAbs: 64, BalanceRel: 1.5, BalanceTokenUsage: 1, OverloadTokenUsage: 1,
		EvictionInterval: time.Minute, MaxTreeSize: 1 << 26, BlockSize: 16,
	}
}

func newCached(t testing.TB, n int, change func(*Settings)) *cached {
	t.Helper()
	s := cacheDefaults()
	if change != nil {
		change(&s)
	}
	s.Metrics = telemetry.NewMetrics(telemetry.Options{}).Policies
	said, log := newRecords()
	_, all := fleet(t, n)
	return &cached{CacheAware(s, log).(*cacheAware), t, all, workers.ListOf(all...), s.Metrics, said, nil}
}

// choose is the place of the worker that a prompt of model m goes to.
func (c *cached) choose(p pipeline.RoutingPrompt) int {
	c.t.Helper()
	c.last = &pipeline.Exchange{Model: "m", Prompt: p}
	i := c.Select(c.last, c.list)
	require.GreaterOrEqual(c.t, i, 0)
	c.last.Legs.Add(c.list.At(i), workers.Regular)
	return place(c.all, c.list.At(i))
}

// teach records a prompt for a worker, as if it had been chosen.
func (c *cached) teach(p pipeline.RoutingPrompt, places ...int) {
	for _, i := range places {
		v := c.index.look("m", &p)
		c.index.record(v, c.all[i])
		v.close()
	}
}

// busy puts requests in flight, by place.
func (c *cached) busy(inFlight ...int) {
	for i, n := range inFlight {
		for range n {
			c.all[i].Begin()
		}
	}
}

// queue gives workers reports with so many tokens that wait, by place.
func (c *cached) queue(tokens ...int64) {
	for i, n := range tokens {
		says(c.all[i], workers.RankLoad{WaitingTokens: n})
	}
}

// branches are the decisions by branch that were counted.
func (c *cached) branches() map[branch]int {
	counts := map[branch]int{}
	for name, counter := range c.metrics.CacheAware {
		if n := testutil.ToFloat64(counter); n > 0 {
			counts[branch(name)] = int(n)
		}
	}
	return counts
}

// cache-aware.md, section 3, the check of the gate; policies.md, section 17. The first worker is the one that may be hot.
func TestAWorkerIsHotThatIsFarAboveTheMean(t *testing.T) {
	tests := []struct {
		loads []int
		rel   float64
		hot   bool
	}{
		{[]int{100, 10, 10, 10}, 1.5, true},
		{[]int{96, 10, 10, 10}, 1.5, true},
		{[]int{95, 10, 10, 10}, 1.5, false},
		{[]int{86, 0, 0, 0}, 1.5, true},
		{[]int{85, 0, 0, 0}, 1.5, false},
		{[]int{400, 200, 200, 200}, 1.5, true},
		{[]int{300, 200, 200, 200}, 1.5, false},
		{[]int{129, 0}, 1.5, true},
		{[]int{128, 0}, 1.5, false},
		{[]int{500}, 1.5, false},
		{[]int{100, 0, 0}, 1.5, true},
		{[]int{97, 0, 0}, 1.5, true},
		{[]int{90, 0, 0}, 1.5, false},
		{[]int{5000, 0, 0}, 3, false}, // a factor of as many as there are candidates turns the gate off
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.loads, tt.rel), func(t *testing.T) {
			c := newCached(t, len(tt.loads), func(s *Settings) { s.BalanceRel = tt.rel })
			c.busy(tt.loads...)
			require.Equal(t, tt.hot, newGate(c.list, tt.rel, 64).hot(int64(tt.loads[0])))
			c.teach(textPrompt("a prompt"), 0)
			require.Equal(t, tt.hot, c.choose(textPrompt("a prompt")) != 0, "the choice follows")
		})
	}
}

// cache-aware.md, section 3, the check of the threshold; policies.md, section 17
func TestAPrefixCountsAboveTheThreshold(t *testing.T) {
	tests := []struct {
		name      string
		threshold float64
		asked     string // abcdefghij is stored
		hit       bool
	}{
		{"three of ten are not above 0.3", 0.3, "abcXYZWVUT", false},
		{"four of ten are", 0.3, "abcdXYZWVU", true},
		{"31 of a hundred are", 0.3, "abcdefghij" + prose(22, 1)[:22], true},
		{"a shorter prompt is there as a whole", 0.3, "abcde", true},
		{"nothing is above 1", 1, "abcdefghij", false},
		{"any match is above 0", 0, "aXXXXXXXXXXXXXXXXXXXXXXXXXXX", true},
		{"no match is not above 0", 0, "X", false},
		{"an empty prompt matches nothing", 0, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCached(t, 2, func(s *Settings) { s.CacheThreshold = tt.threshold })
			c.teach(textPrompt("abcdefghij"), 0)
			c.queue(1000, 0) // without the prefix it is the other one's
			require.Equal(t, tt.hit, c.choose(textPrompt(tt.asked)) == 0)
			want := map[branch]int{fallback: 1}
			if tt.hit {
				want = map[branch]int{treeMatch: 1}
			}
			require.Equal(t, want, c.branches())
		})
	}
}

// cache-aware.md, section 3, the check of tokens
func TestPagesCountAgainstAllTokens(t *testing.T) {
	tests := []struct {
		name          string
		shared, asked int
		ratio         float64
		hit           bool
	}{
		{"the same ids", 40, 40, 0.8, true},
		{"twenty that share a page", 16, 20, 0.8, true},
		{"less than a page", 15, 15, 0, false},
		{"a hundred that share a page and a part", 31, 100, 0.16, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCached(t, 2, nil)
			c.teach(sequence(0, 40), 0)
			c.queue(1000, 0)
			p := sequence(0, tt.shared)
			p.Tokens = append(p.Tokens, sequence(5000, tt.asked-tt.shared).Tokens...)
			require.Equal(t, tt.hit, c.choose(p) == 0)
			lines := c.said.at(t, slog.LevelDebug)
			require.Len(t, lines, 1)
			require.InDelta(t, tt.ratio, lines[0]["matched_ratio"], 1e-9)
		})
	}
}

// cache-aware.md, section 3
func TestTheFirstRequestGoesAnywhereAndTheSecondFollowsIt(t *testing.T) {
	counts := map[int]int{}
	for range 300 {
		c := newCached(t, 3, nil)
		first := c.choose(textPrompt("hello world"))
		counts[first]++
		require.Equal(t, first, c.choose(textPrompt("hello world")))
		require.Equal(t, first, c.choose(textPrompt("hello")))
		require.Equal(t, map[branch]int{fallback: 1, treeMatch: 2}, c.branches())
	}
	for i := range 3 {
		require.GreaterOrEqual(t, counts[i], 60, "worker %d", i)
	}
}

// cache-aware.md, section 3
func TestAmongHoldersTheExpectedWaitDecides(t *testing.T) {
	p := textPrompt("a prompt that two workers know")
	c := newCached(t, 3, nil)
	c.teach(p, 0, 1)
	c.queue(50_000, 0, 0)
	require.Equal(t, 1, c.choose(p))

	counts := map[int]int{}
	for range 200 {
		c := newCached(t, 3, nil)
		c.teach(p, 0, 1)
		c.queue(0, 0, 0)
		counts[c.choose(p)]++
	}
	require.InDelta(t, 100, counts[0], 50, "a tie goes either way")
	require.Equal(t, 200, counts[0]+counts[1])
}

// cache-aware.md, section 3: a hot prefix spreads to another worker, and stays there while the first one is hot.
func TestAHotHolderSpills(t *testing.T) {
	c := newCached(t, 3, nil)
	p := textPrompt("a prompt that everybody sends")
	c.teach(p, 0)
	c.busy(200)
	second := c.choose(p)
	require.NotZero(t, second)
	require.Equal(t, map[branch]int{spill: 1}, c.branches())
	c.queue(0, 0, 0)
	c.all[second].SetReport(&workers.Report{WaitingTokens: 9000, Ranks: make([]workers.RankLoad, 1)})
	require.Equal(t, second, c.choose(p), "it is a holder now, though the third worker has less to do")
	require.Equal(t, map[branch]int{spill: 1, treeMatch: 1}, c.branches())
}

// cache-aware.md, section 3: who has less of the prompt, but enough, comes before those who have nothing.
func TestAShorterHolderComesBeforeSpilling(t *testing.T) {
	c := newCached(t, 3, nil)
	whole := prose(100, 1)
	c.teach(textPrompt(whole), 0)
	c.teach(textPrompt(whole[:60]), 1)
	c.busy(200)
	require.Equal(t, 1, c.choose(textPrompt(whole)))
	require.Equal(t, map[branch]int{treeMatch: 1}, c.branches())

	c = newCached(t, 3, nil)
	c.teach(textPrompt(whole), 0)
	c.teach(textPrompt(whole[:20]), 1)
	c.queue(0, 5000, 0)
	c.busy(200)
	require.Equal(t, 2, c.choose(textPrompt(whole)), "a fifth of it is not enough")
}

// cache-aware.md, section 3: when those who have most of it may not be chosen, shorter ones count.
func TestHoldersThatMayNotBeChosenPlayNoPart(t *testing.T) {
	c := newCached(t, 12, nil)
	whole := prose(100, 1)
	for i := range 8 {
		c.teach(textPrompt(whole), i)
	}
	c.teach(textPrompt(whole), 9)
	c.list = workers.ListOf(c.all[8:]...)
	c.queue(0, 0, 0, 0, 0, 0, 0, 0, 0, 9000, 0, 0)
	require.Equal(t, 9, c.choose(textPrompt(whole)), "the ninth holder is found behind eight that are out")

	c.list = workers.ListOf(c.all[10:]...)
	require.GreaterOrEqual(t, c.choose(textPrompt(whole)), 10)
	require.Equal(t, map[branch]int{treeMatch: 1, fallback: 1}, c.branches())
}

// load-signals.md, section 6: a prompt leaves its worker while that is overloaded, comes back after it, and goes to nobody when all are.
func TestAPromptLeavesAnOverloadedWorker(t *testing.T) {
	c := newCached(t, 2, nil)
	p := textPrompt("a prompt of the first worker")
	available := func() workers.List { return workers.ListOf(c.all...).Keep(nil, (*workers.Worker).Available) }
	c.teach(p, 0)
	c.all[0].SetOverloaded(true)
	c.list = available()
	require.Equal(t, 1, c.choose(p))
	require.Equal(t, map[branch]int{fallback: 1}, c.branches())
	c.all[1].SetOverloaded(true)
	require.Equal(t, -1, c.Select(&pipeline.Exchange{Model: "m", Prompt: p}, available()))
	c.all[0].SetOverloaded(false)
	c.list = available()
	require.Equal(t, 0, c.choose(p), "it still has the prompt")
	require.Equal(t, map[branch]int{fallback: 1, treeMatch: 1}, c.branches())
}

// cache-aware.md, section 3, the check of pressure; policies.md, section 17. Worker 0 has the prefix, and more to do.
func TestFullKVCachesTurnAffinityOff(t *testing.T) {
	const unknown = -1
	tests := []struct {
		name              string
		overload, balance float64
		usage             []float64
		skipped           bool
	}{
		{"above the ceiling", 0.9, 1, []float64{0.91, 0.2}, true},
		{"at the ceiling", 0.9, 1, []float64{0.9, 0.2}, false},
		{"apart by the spread", 1, 0.5, []float64{0.75, 0.25}, false},
		{"apart by more", 1, 0.5, []float64{0.85, 0.25}, true},
		{"thresholds of 1 are off", 1, 1, []float64{1.5, 0}, false},
		{"thresholds that are not set are off", 0, 0, []float64{0.99, 0}, false},
		{"a report without a figure is not 0", 1, 0.5, []float64{0.75, unknown}, false},
		{"an empty cache is a figure", 1, 0.5, []float64{0.75, 0}, true},
		{"nobody says", 0.1, 0.1, []float64{unknown, unknown}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCached(t, 2, func(s *Settings) { s.OverloadTokenUsage, s.BalanceTokenUsage = tt.overload, tt.balance })
			p := textPrompt("a prompt")
			c.teach(p, 0)
			for i, usage := range tt.usage {
				rank := workers.RankLoad{WaitingTokens: int64(1_000_000 * (1 - i)), Usage: usage, Sent: workers.SentWaitingTokens | workers.SentUsage}
				if usage == unknown {
					rank.Usage, rank.Sent = 0, workers.SentWaitingTokens // what the parser makes of a report without the figure
				}
				says(c.all[i], rank, rank)
			}
			require.Equal(t, tt.skipped, c.choose(p) == 1)
			line := c.said.at(t, slog.LevelDebug)[0]
			if !tt.skipped {
				require.Equal(t, "tree", line["index"])
				return
			}
			require.Equal(t, string(kvPressured), line["branch"])
			require.NotContains(t, line, "index")
			require.Empty(t, c.branches(), "it is no decision of a tree")
			r := rig{c.index, t, c.all}
			require.Equal(t, 8, r.holding(p, 1), "it is recorded all the same")
		})
	}
}

// cache-aware.md, section 3, rule 7: of a prompt that the worker holds the rest is credited, or all of it.
func TestWhatIsHeldCountsOnlyIfThatIsAsked(t *testing.T) {
	for held, want := range map[bool]float64{false: 160, true: 160 + 160} { // the first choice is of a prompt that nobody holds
		c := newCached(t, 1, func(s *Settings) { s.CountHeld = held })
		c.queue(0)
		prompt := sequence(0, 160)
		c.choose(prompt)
		c.choose(prompt)
		require.InDelta(t, want, c.scorer.account(c.all[0], c.all[0].Report()).credit, 1, "counted: %t", held)
	}
}

// cache-aware.md, section 3, and policies.md, section 17: the checks of decay.
func TestAQueueTakesAwayFromAPrefix(t *testing.T) {
	require.InDelta(t, 0.909, 10/11.0*preference{decay: 0, block: 16, blocks: 20}.remainder(3200), 1e-3)
	require.InDelta(t, 1/11.0, preference{decay: 1, block: 16, blocks: 20}.remainder(3200), 1e-9)
	require.InDelta(t, 10/3.0, 10*preference{decay: 1, block: 16, blocks: 10}.remainder(320), 1e-9)

	c := newCached(t, 2, func(s *Settings) { s.OverlapDecay = 1 })
	whole := sequence(0, 160)
	c.teach(whole, 0)
	c.teach(sequence(0, 96), 1)
	c.queue(160, 0)
	require.Equal(t, 1, c.choose(whole), "1/(1+1) is less than 6/10")
	c = newCached(t, 2, func(s *Settings) { s.OverlapDecay = 1 })
	c.teach(whole, 0)
	c.teach(sequence(0, 96), 1)
	c.queue(80, 0)
	require.Equal(t, 0, c.choose(whole), "1/(1+1/2) is more")
	says(c.all[1], vague(0))
	c.queue(160)
	require.Equal(t, 0, c.choose(whole), "a queue that is not known is not the shortest")
}

// cache-aware.md, section 3, and policies.md, section 17: the checks of temperature.
func TestTemperatureSpreadsChoicesOverScores(t *testing.T) {
	weigh := func(temperature float64, scores ...float64) (shares []float64) {
		sum := 0.0
		for _, s := range scores {
			sum += warmth(s, scores[len(scores)-1], scores[0], temperature)
		}
		for _, s := range scores {
			shares = append(shares, warmth(s, scores[len(scores)-1], scores[0], temperature)/sum)
		}
		return shares
	}
	require.InDeltaSlice(t, []float64{0.665, 0.245, 0.090}, weigh(0.5, 10, 5, 0), 1e-3)
	require.InDeltaSlice(t, []float64{0.731, 0.269}, weigh(1, 10, 0), 1e-3)

	counts := map[int]int{}
	for range 600 {
		a := affinity{holders: []prefixHolder{{score: 10, place: 0}, {score: 0, place: 1}, {score: 99, place: 2, hot: true}}}
		counts[int(a.draw(1, nil))]++
	}
	require.InDelta(t, 439, counts[10], 70)
	require.Equal(t, 600, counts[10]+counts[0], "a hot one is not drawn")
	equal := affinity{holders: []prefixHolder{{score: 7}, {score: 7}}}
	require.InDelta(t, 7, equal.draw(1, nil), 0)
}

// cache-aware.md, section 0.1
func TestRequestsWithoutAModelShareTheOnlyOne(t *testing.T) {
	only := workers.ListOf(labelled(t, 1, "org/m", ""), labelled(t, 2, "org/m", ""))
	mixed := workers.ListOf(labelled(t, 1, "org/m", ""), labelled(t, 2, "other", ""))
	require.Equal(t, "org/m", modelKey(&pipeline.Exchange{}, only))
	require.Equal(t, "unknown", modelKey(&pipeline.Exchange{}, mixed))
	require.Equal(t, "given", modelKey(&pipeline.Exchange{Model: "given"}, only))
}

// DECISIONS.md 2
func TestAFailedAttemptLeavesNoCredit(t *testing.T) {
	tests := []struct {
		name   string
		status int // of the leg; 0: nothing was heard
		kept   bool
	}{
		{"an answer of 200 stays", 200, true},
		{"an answer that broke behind its head stays", 206, true},
		{"an error of the worker is taken back", 500, false},
		{"a refusal is taken back", 429, false},
		{"a connection that failed is taken back", 502, false},
		{"a client that left before the head is taken back", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCached(t, 1, nil)
			p := textPrompt("a prompt of words")
			c.choose(p)
			r := rig{c.index, t, c.all}
			require.Equal(t, 17, r.holding(p, 0), "followers find it while it is computed")
			c.last.Legs.Last().Status = tt.status
			c.Ended(c.last)
			require.Equal(t, map[bool]int{true: 17, false: 0}[tt.kept], r.holding(p, 0))
			c.Ended(c.last)
			r.audit()
		})
	}
	t.Run("what a follower has used stays", func(t *testing.T) {
		c := newCached(t, 1, nil)
		p := textPrompt("a prompt of words")
		c.choose(p)
		failed := c.last
		c.choose(p)
		failed.Legs.Last().Status = 500
		c.Ended(failed)
		require.Equal(t, 17, (&rig{c.index, t, c.all}).holding(p, 0))
	})
	t.Run("an attempt without a prompt ends as well", func(t *testing.T) {
		c := newCached(t, 1, nil)
		c.choose(pipeline.RoutingPrompt{})
		c.Ended(c.last)
	})
}

// cache-aware.md, section 5: one line at debug for each decision, and no prompt in it.
func TestCacheAwareTellsOfItsDecisions(t *testing.T) {
	c := newCached(t, 2, nil)
	p := textPrompt("a secret prompt")
	first := c.choose(p)
	c.choose(p)
	lines := c.said.at(t, slog.LevelDebug)
	require.Len(t, lines, 2)
	for i, want := range []map[string]any{
		{"branch": "expected_wait_fallback", "matched_ratio": 0.0}, {"branch": "tree_match", "matched_ratio": 1.0},
	} {
		require.Equal(t, "Cache-aware selection", lines[i]["msg"])
		require.Equal(t, "smg::policies::cache_aware", lines[i]["target"])
		require.Equal(t, "tree", lines[i]["index"])
		require.Equal(t, "m", lines[i]["model_id"])
		require.Equal(t, c.all[first].URL(), lines[i]["worker"])
		require.InDelta(t, 0.3, lines[i]["threshold"], 1e-9)
		for k, v := range want {
			require.Equal(t, v, lines[i][k])
		}
		require.NotContains(t, fmt.Sprint(lines[i]), "secret")
	}
}

// DESIGN, "Explaining": a dry run finds what a request would find, and leaves the index as it was.
func TestADryRunRecordsNothing(t *testing.T) {
	c := newCached(t, 3, nil)
	p := textPrompt("a prompt of words")
	c.teach(p, 1)
	r := rig{c.index, t, c.all}
	stamp, total := c.index.memory.stamp.Load(), r.total()
	x := &pipeline.Exchange{Model: "m", Prompt: textPrompt(p.Text + " and more"), DryRun: true, Explain: &pipeline.Explanation{}}
	require.Equal(t, 1, c.Select(x, c.list))
	require.Equal(t, stamp, c.index.memory.stamp.Load())
	require.Equal(t, total, r.total())
	require.Empty(t, c.branches())
	require.Empty(t, c.said.at(t, slog.LevelDebug))
	require.Len(t, x.Explain.Scores, 1)
	parts := x.Explain.Scores[0].Parts
	require.Equal(t, "matched_share", parts[len(parts)-1].Name)
	require.InDelta(t, 17.0/26, parts[len(parts)-1].Value, 1e-9)
	require.Len(t, x.Explain.LeftOut, 2)
	require.Equal(t, "it has too little of the prompt", x.Explain.LeftOut[0].Reason)
}

func TestCacheAwareExplainsWhyHoldersWereNotCompared(t *testing.T) {
	c := newCached(t, 4, nil)
	whole := prose(100, 1)
	c.teach(textPrompt(whole), 0, 1)
	c.teach(textPrompt(whole[:50]), 2)
	c.busy(500)
	x := &pipeline.Exchange{Model: "m", Prompt: textPrompt(whole), DryRun: true, Explain: &pipeline.Explanation{}}
	require.Equal(t, 1, c.Select(x, c.list))
	reasons := map[int]string{}
	for _, l := range x.Explain.LeftOut {
		require.Equal(t, "policy", l.Stage)
		reasons[place(c.all, l.Worker)] = l.Reason
	}
	require.Equal(t, map[int]string{
		0: "hot: it has much more in flight than the others", 2: "others have more of the prompt", 3: "it has too little of the prompt",
	}, reasons)
}

// A choice with a prompt allocates nothing once the prompt is known and the exchange has been used.
func TestAChoiceWithAPromptAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	s := cacheDefaults()
	p := CacheAware(s, slog.New(slog.DiscardHandler))
	registry, _ := fleet(t, 100)
	among := pool(registry)
	for _, prompt := range []pipeline.RoutingPrompt{textPrompt(prose(1000, 1)), sequence(0, 500), {Text: prose(500, 2), Partition: 5}} {
		x := &pipeline.Exchange{Model: "m", Prompt: prompt}
		for range 200 { // until all workers know it
			p.Select(x, among)
		}
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.Select(x, among) }), 0.0)
	}
}
