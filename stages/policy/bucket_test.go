package policy

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// legs is bucket over prefill workers w1, w2 and so on, with a clock that a test moves.
type legs struct {
	*bucket
	t       testing.TB
	said    *records
	now     time.Time
	workers []*workers.Worker
	pool    workers.List
}

func newLegs(t testing.TB, n int, abs int64, rel float64) *legs {
	t.Helper()
	said, log := newRecords()
	l := &legs{t: t, said: said, now: time.Unix(1e9, 0)}
	s := Settings{BalanceAbs: abs, BalanceRel: rel, Shared: Shared{Clock: func() time.Time { return l.now }}}
	l.bucket = Bucket(s, log).(*bucket)
	l.become(l.fresh(n)...)
	return l
}

func (l *legs) fresh(n int) []*workers.Worker {
	var all []*workers.Worker
	for i := range n {
		spec := workers.NewSpec(fmt.Sprintf("http://w%d:8000", i+1))
		spec.WorkerType = workers.Prefill
		w, err := workers.New(spec, workers.DefaultSettings())
		require.NoError(l.t, err)
		w.SetStatus(workers.Ready)
		all = append(all, w)
	}
	return all
}

// become registers the workers in this order.
func (l *legs) become(all ...*workers.Worker) {
	l.workers = all
	l.pool = workers.NewRegistry(all...).Pool("", workers.Prefill, workers.HTTP)
}

// send is who gets a prompt of that many characters, of those that are available.
func (l *legs) send(size int) string { return l.ask(saying(strings.Repeat("x", size))) }

func (l *legs) ask(x *pipeline.Exchange) string {
	x.Pool = l.pool
	x.Candidates = l.pool.Keep(nil, (*workers.Worker).Available)
	i := l.Select(x, x.Candidates)
	if i < 0 {
		return "none"
	}
	return label(x.Candidates.At(i))
}

func (l *legs) ranges() string { return l.of("m1").ranges.String() }

// policies.md, section 16: initial ranges.
func TestRangesAreEvenAtFirst(t *testing.T) {
	for n, want := range map[int]string{
		1: "[0,∞)", 2: "[0,2047] [2048,∞)", 3: "[0,1364] [1365,2729] [2730,∞)", 4: "[0,1023] [1024,2047] [2048,3071] [3072,∞)",
	} {
		require.Equal(t, want, evenRanges(n).String())
	}
	l := newLegs(t, 3, 1<<40, 1)
	for size, want := range map[int]string{0: "w1", 1364: "w1", 1365: "w2", 2729: "w2", 2730: "w3", 100_000: "w3"} {
		require.Equal(t, want, l.send(size), size)
	}
}

// policies.md, section 16: the unit of sizes.
func TestASizeIsInTokensOrCharacters(t *testing.T) {
	for name, tt := range map[string]struct {
		p    pipeline.RoutingPrompt
		want int64
	}{
		"tokens":                         {pipeline.RoutingPrompt{Tokens: make([]uint32, 7)}, 7},
		"tokens, even none":              {pipeline.RoutingPrompt{Tokens: []uint32{}, Text: "text"}, 0},
		"characters are code points":     {pipeline.RoutingPrompt{Text: "größe" + wave}, 6},
		"nothing is known of the prompt": {pipeline.RoutingPrompt{}, 0},
	} {
		require.Equal(t, tt.want, promptSize(&tt.p), name)
	}
	require.Equal(t, pipeline.WantText|pipeline.WantTokens, newLegs(t, 1, 0, 1).Wants())
}

// policies.md, section 16: adjustment. Each step is the sizes of one window and the ranges afterwards.
func TestRangesFollowTheSizes(t *testing.T) {
	const first = "[0,20] [21,26] [27,∞)"
	tests := []struct {
		name  string
		steps [][]int
		want  []string
	}{
		{"a window", [][]int{{5, 10, 15, 20, 24, 26}}, []string{first}},
		{"in any order", [][]int{{26, 5, 24, 20, 10, 15}}, []string{first}},
		{"twice as much and more", [][]int{{5, 10, 15, 20, 24, 26}, {10, 20, 30, 40, 45, 57}}, []string{first, "[0,40] [41,57] [58,∞)"}},
		{"not twice as much", [][]int{{5, 10, 15, 20, 24, 26}, {10, 20, 30, 32, 45, 55}}, []string{first, first}},
		{"sizes run out, and then less than half", [][]int{{20}, {7}}, []string{"[0,20] [21,27] [28,∞)", "[0,7] [8,10] [11,∞)"}},
		{"equal shares", [][]int{{33, 34, 34}}, []string{"[0,33] [34,67] [68,∞)"}},
		{"nothing was sent", [][]int{{}}, []string{"[0,1364] [1365,2729] [2730,∞)"}},
		{"sizes of 0 alone", [][]int{{0, 0}}, []string{"[0,0] [1,1] [2,∞)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLegs(t, 3, 1<<40, 1)
			x := saying("")
			x.DryRun = true
			l.ask(x) // the ranges are there
			for i, sizes := range tt.steps {
				l.now = l.now.Add(4 * time.Second)
				for _, size := range sizes {
					l.send(size)
				}
				l.now = l.now.Add(time.Second)
				l.prepare(request(), l.of("m1"), l.pool, l.now)
				require.Equal(t, tt.want[i], l.ranges())
				l.now = l.now.Add(5 * time.Second) // of this window, nothing is left
				l.prepare(request(), l.of("m1"), l.pool, l.now)
				require.Equal(t, tt.want[i], l.ranges(), "an empty window changes nothing")
			}
		})
	}
}

// policies.md, section 22: the ranges before and after.
func TestAnAdjustmentIsLogged(t *testing.T) {
	l := newLegs(t, 2, 1<<40, 1)
	l.send(100)
	l.now = l.now.Add(5 * time.Second)
	l.send(100)
	told := l.said.at(t, slog.LevelInfo)
	require.Len(t, told, 1)
	require.Equal(t, []any{"[0,2047] [2048,∞)", "[0,100] [101,∞)"}, []any{told[0]["before"], told[0]["after"]})
	lines := l.said.at(t, slog.LevelDebug)
	require.Len(t, lines, 2)
	require.Equal(t, []any{false, "range", 100.0}, []any{lines[0]["imbalanced"], lines[0]["path"], lines[0]["size"]})
}

// policies.md, section 16: the balance of what was sent; the request itself does not count.
func TestAWorkerThatHasMuchMoreIsRelieved(t *testing.T) {
	tests := []struct {
		name  string
		abs   int64
		rel   float64
		loads []int64
		want  bool
	}{
		{"33 more, 32 are allowed", 32, 1.0001, []int64{33, 0, 0}, true},
		{"28 more, 30 are allowed", 30, 1.0001, []int64{28, 0, 0}, false},
		{"50 more, 64 are allowed", 64, 1.5, []int64{200, 150, 150}, false},
		{"150 more, and twice as much", 64, 1.5, []int64{300, 150, 150}, true},
		{"70 more, but not half as much again", 64, 1.5, []int64{220, 150, 150}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLegs(t, 3, tt.abs, tt.rel)
			l.send(0)
			for i, size := range tt.loads {
				l.of("m1").add(l.workers[i], size, l.now)
			}
			require.Equal(t, !tt.want, l.send(1) == "w1", "the range of 1 is the first worker's")
		})
	}
	l := newLegs(t, 3, 32, 1.0001)
	require.Equal(t, "w1", l.send(33))
	require.Contains(t, []string{"w2", "w3"}, l.send(33))
}

// policies.md, section 16, defects: the window is purged before every decision.
func TestWhatWasSentLongAgoDoesNotCount(t *testing.T) {
	l := newLegs(t, 2, 10, 1)
	require.Equal(t, "w1", l.send(100))
	require.Equal(t, "w2", l.send(1), "it is relieved")
	l.now = l.now.Add(5*time.Second + 1)
	require.Equal(t, "w1", l.send(1))
	require.EqualValues(t, 1, l.of("m1").loadOf(l.workers[0]))
}

// policies.md, section 16, defects: the owner of the range may be out.
func TestARangeWhoseOwnerIsOutGoesToTheLeastLoaded(t *testing.T) {
	l := newLegs(t, 3, 1<<40, 1)
	l.send(2000)
	l.workers[0].SetStatus(workers.NotReady)
	require.Equal(t, "w3", l.send(1))
	l.workers[2].SetStatus(workers.NotReady)
	require.Equal(t, "w2", l.send(1))
	l.workers[1].SetStatus(workers.NotReady)
	require.Equal(t, "none", l.send(1))
}

// policies.md, section 16, defects: the span is always 4096; loads of unchanged workers are kept, those of removed ones dropped.
func TestMembershipChangesTheRangesAndKeepsTheLoads(t *testing.T) {
	l := newLegs(t, 2, 1<<40, 1)
	l.send(100)
	l.send(3000)
	kept, gone := l.workers[0], l.workers[1]
	l.Forget(gone)
	l.become(append([]*workers.Worker{kept}, l.fresh(4)[1:]...)...)
	l.send(0)
	require.Equal(t, "[0,1023] [1024,2047] [2048,3071] [3072,∞)", l.ranges())
	own := l.of("m1")
	require.EqualValues(t, 100, own.loadOf(kept))
	require.Zero(t, own.loadOf(l.workers[1]))
	l.now = l.now.Add(time.Minute)
	own.purge(l.now)
	require.Zero(t, own.loadOf(kept), "what was forgotten is not taken off twice")

	for _, w := range l.workers[1:] {
		w.SetStatus(workers.NotReady)
	}
	l.now = l.now.Add(time.Second)
	l.send(50)
	l.now = l.now.Add(5 * time.Second)
	l.send(50)
	require.NotEqual(t, evenRanges(4).String(), l.ranges())
	learned := l.ranges()
	l.workers[1].SetStatus(workers.Ready)
	l.send(50)
	require.Equal(t, learned, l.ranges(), "who is out is still a member")

	l.become(kept)
	l.send(0)
	l.Forget(kept)
	require.Empty(t, l.models, "nothing is kept of a model without workers")
}

// policies.md, section 16, defects: no state for the model.
func TestBucketHasNoRangesForOtherWorkers(t *testing.T) {
	s := newSite(t, "bucket", 3, nil)
	seen := map[string]int{}
	for range 90 {
		seen[s.pick(saying("hi"))]++
	}
	require.Len(t, seen, 3)
	require.Len(t, s.said.at(t, slog.LevelWarn), 1)
}

// policies.md, section 18: the thresholds that a label brings.
func TestABucketOfALabelHasItsOwnThresholds(t *testing.T) {
	s := newSite(t, "random", 0, nil)
	require.NoError(t, s.registry.Add(worker(t, "http://w1:8000", map[string]string{"model_id": "m1", "policy": "bucket"})))
	b := s.For("m1").(*bucket)
	require.Equal(t, []any{int64(32), 1.0001, 5 * time.Second}, []any{b.abs, b.rel, b.interval})
	b = Bucket(Settings{BalanceAbs: 64, BalanceRel: 1.5}, slog.New(slog.DiscardHandler)).(*bucket)
	require.Equal(t, []any{int64(64), 1.5, 5 * time.Second}, []any{b.abs, b.rel, b.interval})
}

// DESIGN, "Explaining" and dry runs.
func TestBucketExplainsARange(t *testing.T) {
	l := newLegs(t, 2, 10, 1)
	l.send(5)
	dry := func() (string, []pipeline.Score) {
		x := saying("four")
		x.DryRun, x.Explain = true, &pipeline.Explanation{}
		name := l.ask(x)
		return name, x.Explain.Scores
	}
	for range 3 {
		name, scores := dry()
		require.Equal(t, "w1", name)
		require.Equal(t, []pipeline.Score{{Worker: l.workers[0], Parts: []pipeline.Part{
			{Name: "range_from"}, {Name: "range_to", Value: 2047}, {Name: "size_in_window", Value: 5},
		}}}, scores)
	}
	l.send(50)
	name, scores := dry()
	require.Equal(t, "w2", name)
	require.Len(t, scores, 2)
	requireBest(t, l.workers[1], scores, l.pool)
}

// The loads are what the window comes to, whatever has happened.
func TestLoadsAreTheSumsOfTheWindow(t *testing.T) {
	l := newLegs(t, 5, 100, 1.2)
	for range 500 {
		l.now = l.now.Add(time.Duration(rand.IntN(100)) * time.Millisecond)
		l.workers[rand.IntN(4)].SetStatus([]workers.Status{workers.Ready, workers.NotReady}[rand.IntN(2)])
		l.send(rand.IntN(500))
		own := l.of("m1")
		sums := map[workers.ID]int64{}
		for _, s := range own.window[own.head:] {
			sums[s.id] += s.size
			require.LessOrEqual(t, l.now.Sub(s.at), 5*time.Second)
		}
		for _, w := range l.workers {
			require.Equal(t, sums[w.ID()], own.loadOf(w))
		}
		require.Less(t, cap(own.window), 1000)
	}
}
