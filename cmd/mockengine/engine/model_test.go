package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a job whose tokens a test counts.
type watched struct {
	Job
	at []time.Duration // of each token
}

func (w *watched) Token(_ *Job, k int, at time.Duration) {
	if k != len(w.at) {
		panic("tokens out of order")
	}
	w.at = append(w.at, at)
}

// prompt is n tokens that begin with a prefix; the number tells prompts apart behind it.
func prompt(number, prefix, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		if tokens[i] = uint32(i); i >= prefix {
			tokens[i] = uint32(number<<20 | i)
		}
	}
	return tokens
}

func watch(m *Model, tokens []uint32, output int) *watched {
	w := &watched{Job: Job{Pages: PageDigests(nil, tokens, m.cfg.PageSize), Tokens: len(tokens), Output: output}}
	w.Owner = w
	return w
}

// runOut lets the model run until it has nothing to do.
func runOut(t *testing.T, m *Model) time.Duration {
	t.Helper()
	var last time.Duration
	for {
		at, ok := m.Next()
		if !ok {
			return last
		}
		require.GreaterOrEqual(t, at, last, "time does not go back")
		last = at
		m.Advance(at)
	}
}

func requireQuiet(t *testing.T, m *Model) {
	t.Helper()
	require.Zero(t, m.InFlight())
	require.Zero(t, m.Held())
	require.NoError(t, m.cache.check())
}

const ms = time.Millisecond

// ends is told of the first and the last token of a job.
type ends struct {
	Job
	told map[int]time.Duration
}

func (e *ends) Token(_ *Job, k int, at time.Duration) { e.told[k] = at }

// What an owner is told changes nothing of what the engine does.
func TestAnOwnerOfTheEndsIsToldOfTheFirstAndTheLastToken(t *testing.T) {
	for output := 1; output <= 4; output++ {
		m := NewModel(ModelConfig{}, nil)
		every := watch(m, prompt(0, 0, 100), output)
		m.Submit(0, &every.Job)
		two := &ends{Job: Job{Tokens: 100, Output: output, Ends: true}, told: map[int]time.Duration{}}
		two.Owner = two
		m.Submit(0, &two.Job)
		nobody := &Job{Tokens: 100, Output: output}
		m.Submit(0, nobody)
		runOut(t, m)

		all := NewModel(ModelConfig{}, nil)
		var same [3]*watched
		for i := range same {
			same[i] = watch(all, prompt(i, 0, 100), output)
			all.Submit(0, &same[i].Job)
		}
		runOut(t, all)
		require.Len(t, every.at, output)
		require.Equal(t, same[0].at, every.at)
		require.Equal(t, map[int]time.Duration{0: same[1].at[0], output - 1: same[1].at[output-1]}, two.told)
		require.Equal(t, jobOver, nobody.state)
		require.Equal(t, all.Totals(), m.Totals())
		requireQuiet(t, m)
	}
}

// least-work.md, section 4: the time of a step.
func TestAStepTakesAsLongAsItsWork(t *testing.T) {
	tests := []struct {
		name           string
		tokens, output int
		want           []time.Duration // of the tokens
	}{
		{"a short prompt takes the least time of a step", 16, 1, []time.Duration{20 * ms}},
		{"a chunk of 1,024 takes 64 ms at 16,000 a second", 1024, 1, []time.Duration{64 * ms}},
		{"a longer prompt takes several, and the rest", 2048 + 640, 1, []time.Duration{168 * ms}},
		{"a request that decodes adds a little to each step", 1024, 3, []time.Duration{64 * ms, 84*ms + 250*time.Microsecond, 104*ms + 500*time.Microsecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewModel(ModelConfig{}, nil)
			j := watch(m, prompt(1, 0, tt.tokens), tt.output)
			m.Submit(0, &j.Job)
			runOut(t, m)
			require.Equal(t, tt.want, j.at)
			requireQuiet(t, m)
		})
	}
}

// Prefix reuse, at whole pages and never all of a prompt.
func TestAPromptIsFoundAgainAsFarAsItsPagesAgree(t *testing.T) {
	tests := []struct {
		name           string
		first, second  []uint32
		cached, spared int
	}{
		{"another prompt has nothing", prompt(1, 0, 320), prompt(2, 0, 320), 0, 0},
		{"whole pages of 16 count", prompt(1, 0, 320), slices.Concat(prompt(1, 0, 100), prompt(2, 0, 100)), 96, 96},
		{"the last token of a known prompt is computed again", prompt(1, 0, 320), prompt(1, 0, 320), 319, 319},
		{"less than a page is not kept", prompt(1, 0, 15), prompt(1, 0, 15), 0, 0},
		{"a page in another place is another page", prompt(1, 0, 32), prompt(1, 0, 32)[16:], 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewModel(ModelConfig{}, nil)
			a, b := watch(m, tt.first, 2), watch(m, tt.second, 2)
			m.Submit(0, &a.Job)
			m.Submit(runOut(t, m), &b.Job)
			runOut(t, m)
			require.Zero(t, a.Cached)
			require.Equal(t, tt.cached, b.Cached)
			require.EqualValues(t, len(tt.first)+len(tt.second)-tt.spared, m.Totals().Computed)
			requireQuiet(t, m)
		})
	}
}

// least-work.md, section 4: a chunk's blocks can be reused as soon as it is scheduled.
func TestAFollowerFindsWhatIsBeingComputed(t *testing.T) {
	m := NewModel(ModelConfig{}, nil)
	a, b := watch(m, prompt(1, 1008, 1100), 1), watch(m, prompt(2, 1008, 1100), 1)
	m.Submit(0, &a.Job)
	m.Submit(0, &b.Job)
	runOut(t, m)
	require.Equal(t, 1008, b.Cached)
	require.Equal(t, b.at, a.at, "both end in the second step")
	requireQuiet(t, m)
}

// least-work.md, section 4: paged LRU prefix cache with pinning; least-work.md, section 3: leaves first.
func TestWhatNobodyHoldsGoesOldestAndDeepestFirst(t *testing.T) {
	m := NewModel(ModelConfig{KVTokens: 10 * 16}, nil)
	run := func(tokens []uint32, cached int) {
		t.Helper()
		j := watch(m, tokens, 1)
		m.Submit(0, &j.Job)
		m.Advance(time.Hour)
		require.Equal(t, cached, j.Cached)
		requireQuiet(t, m)
	}
	run(prompt(1, 0, 64), 0) // 4 pages, and 1 for the answer
	run(prompt(2, 0, 48), 0)
	run(prompt(1, 0, 33), 32) // its first two pages are new again
	run(prompt(3, 0, 64), 0)  // needs 5 of the 10; 7 are there: the 2 deepest of the first go before the others
	run(prompt(1, 0, 64), 32)
}

// least-work.md, section 4: prompt and real output reserved at admission; the head of the line blocks; running limit.
func TestARequestWaitsUntilThereIsRoom(t *testing.T) {
	tests := []struct {
		name   string
		config ModelConfig
		second int // output of it
	}{
		{"for its place among those that run", ModelConfig{MaxRunning: 1}, 1},
		{"for its memory", ModelConfig{KVTokens: 40 * 16}, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewModel(tt.config, nil)
			a, b, c := watch(m, prompt(1, 0, 256), 10), watch(m, prompt(2, 0, 16), tt.second), watch(m, prompt(3, 0, 16), 1)
			for _, j := range []*watched{a, b, c} {
				m.Submit(0, &j.Job)
			}
			l := m.Load()
			require.Equal(t, []int{1, 2, 32}, []int{l.Running, l.Waiting, l.WaitingTokens})
			runOut(t, m)
			require.Equal(t, a.at[9], b.Admitted, "the first has ended")
			require.GreaterOrEqual(t, c.Admitted, b.Admitted, "it would have fitted; the head of the line blocks")
			requireQuiet(t, m)
		})
	}
}

// A prompt that is larger than the cache runs alone instead of never.
func TestARequestThatIsTooLargeRunsAlone(t *testing.T) {
	m := NewModel(ModelConfig{KVTokens: 160}, nil)
	a, b := watch(m, prompt(1, 0, 1000), 5), watch(m, prompt(2, 0, 16), 1)
	m.Submit(0, &a.Job)
	m.Submit(0, &b.Job)
	runOut(t, m)
	require.Len(t, a.at, 5)
	require.Equal(t, a.at[4], b.Admitted)
	requireQuiet(t, m)
}

func TestARequestCanLeaveAtAnyPoint(t *testing.T) {
	for step := range 8 {
		m := NewModel(ModelConfig{MaxRunning: 2}, nil)
		var jobs []*watched
		for n := range 4 {
			jobs = append(jobs, watch(m, prompt(n, 512, 1500), 3))
			m.Submit(0, &jobs[n].Job)
		}
		for range step {
			at, _ := m.Next()
			m.Advance(at)
		}
		for _, j := range jobs[1:] {
			told := len(j.at)
			m.Cancel(&j.Job)
			m.Cancel(&j.Job)
			require.NoError(t, m.cache.check())
			runOut(t, m)
			require.Len(t, j.at, told, "nothing is told of it any more")
		}
		require.Len(t, jobs[0].at, 3)
		requireQuiet(t, m)
	}
}

// load-signals.md, section 4: load reports follow from the model.
func TestALoadReportFollowsFromTheModel(t *testing.T) {
	m := NewModel(ModelConfig{KVTokens: 1600, MaxRunning: 4}, nil)
	for n := range 4 {
		j := watch(m, prompt(n, 0, 16), 100)
		m.Submit(0, &j.Job)
	}
	for range rateSteps + 1 {
		at, _ := m.Next()
		m.Advance(at)
	}
	l := m.Load()
	require.Equal(t, []int{4, 0, 4, 1600}, []int{l.Running, l.Waiting, l.RunningLimit, l.Capacity})
	require.Equal(t, 4*128, l.Used, "116 tokens are 8 pages of 16")
	require.InDelta(t, 4*128/1600.0, l.Usage, 1e-9)
	require.InDelta(t, 4/0.021, l.Throughput, 5)
	runOut(t, m)
	require.Zero(t, m.Load().Throughput)
	require.Zero(t, m.Load().Used)
}

// least-work.md, section 4: one engine, unique prompts, one output token gives the mean wait of an M/D/1 queue within 2 % at 30 to
// 85 % load.
func TestOneEngineIsAnMD1Queue(t *testing.T) {
	const service = 64 * ms
	for _, load := range []float64{0.3, 0.5, 0.7, 0.85} {
		const n = 200_000
		rng := rand.New(rand.NewPCG(7, 7))
		m := NewModel(ModelConfig{PageSize: 1024}, nil)
		wait, now := 0.0, time.Duration(0)
		came := make([]time.Duration, n)
		for i := range n {
			now += time.Duration(rng.ExpFloat64() * service.Seconds() / load * float64(time.Second))
			came[i] = now
			m.Advance(now)
			m.Submit(now, &Job{Pages: []uint64{uint64(i) + 1}, Tokens: 1024, Output: 1, Owner: owner(func(_ *Job, _ int, at time.Duration) {
				wait += (at - came[i] - service).Seconds()
			})})
		}
		runOut(t, m)
		requireQuiet(t, m)
		want := load / (2 * (1 - load)) * service.Seconds()
		require.Less(t, math.Abs(wait/n/want-1), 0.02, "load %g: %g s instead of %g s", load, wait/n, want)
	}
}

type owner func(j *Job, k int, at time.Duration)

func (f owner) Token(j *Job, k int, at time.Duration) { f(j, k, at) }

// Whatever comes in whatever order, the books match and end at 0, and everybody gets what they asked for.
func TestTheBooksMatchWhateverHappens(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := NewModel(ModelConfig{KVTokens: 16 * (20 + rng.IntN(200)), MaxRunning: 1 + rng.IntN(8), PrefillChunk: 64}, nil)
		var all []*watched
		left := map[*watched]bool{}
		for n := range 300 {
			if at, ok := m.Next(); ok && rng.IntN(3) > 0 {
				m.Advance(at)
			}
			j := watch(m, prompt(n, rng.IntN(5)*32, 1+rng.IntN(500)), 1+rng.IntN(20))
			at, _ := m.Next()
			m.Advance(at)
			m.Submit(at, &j.Job)
			all = append(all, j)
			if gone := all[rng.IntN(len(all))]; rng.IntN(4) == 0 && len(gone.at) < gone.Output {
				m.Cancel(&gone.Job)
				left[gone] = true
			}
			require.NoError(t, m.cache.check(), "seed %d, request %d", seed, n)
			require.LessOrEqual(t, m.running(), m.cfg.MaxRunning)
		}
		runOut(t, m)
		requireQuiet(t, m)
		for _, j := range all {
			if !left[j] {
				require.Len(t, j.at, j.Output)
			}
		}
	}
}
