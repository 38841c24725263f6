package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// cache-aware.md, section 2.4
func TestEvictionTakesTheOldestFirst(t *testing.T) {
	r := newRig(t, 3, Settings{})
	r.put(textPrompt("hello"), 1)
	r.put(textPrompt("hello"), 2)
	r.put(textPrompt("world"), 2)
	require.Equal(t, 15, r.total())
	r.shrink(5)
	require.Equal(t, []string{"world 2"}, r.drawing(r.texts()))
	require.Equal(t, 5, r.holding(textPrompt("world"), 2))
	r.audit()
}

// cache-aware.md, section 2.4: eight workers, ten units each, a budget of 40.
func TestEvictionTakesTheOldestAcrossWorkers(t *testing.T) {
	r := newRig(t, 8, Settings{})
	for w := range 8 {
		r.put(textPrompt(fmt.Sprintf("%d123456789", w)), w)
	}
	r.shrink(40)
	for w := range 8 {
		require.Equal(t, map[bool]int{true: 0, false: 10}[w < 4], r.units(w), "worker %d", w)
	}
	r.audit()
}

// cache-aware.md, section 2.4
func TestEvictionOfEverythingLeavesAnEmptyTree(t *testing.T) {
	r := newRig(t, 1, Settings{})
	r.shrink(0)
	r.put(textPrompt("hello"), 0)
	r.put(sequence(0, 32), 0)
	r.shrink(0)
	require.Zero(t, r.total())
	require.Empty(t, r.drawing(r.texts()))
	require.Zero(t, r.memory.used.Load())
	r.put(textPrompt("hello"), 0)
	require.Equal(t, 5, r.holding(textPrompt("hello"), 0))
	r.audit()
}

// cache-aware.md, sections 2.2 and 2.4: a trunk that is in use is not older than its leaves.
func TestEvictionSparesATrunkThatIsInUse(t *testing.T) {
	r := newRig(t, 2, Settings{})
	r.put(textPrompt("SYS old leaf"), 0)
	r.put(textPrompt("other"), 1)
	r.put(textPrompt("SYS new leaf"), 0)
	r.shrink(20)
	require.ElementsMatch(t, []string{"SYS new leaf 0", "other 1"}, r.drawing(r.texts()))
	r.shrink(12)
	require.ElementsMatch(t, []string{"SYS new leaf 0"}, r.drawing(r.texts()), "the trunk was stamped with its new leaf")
	r.audit()
}

// cache-aware.md, section 2.4: leaves go before what is above them, also if all have one age.
func TestEvictionTakesLeavesFirst(t *testing.T) {
	r := newRig(t, 1, Settings{})
	long := prose(5*maxEdge, 1)
	r.put(textPrompt(long), 0)
	for left := 5 * maxEdge; left > 0; left -= maxEdge {
		require.Equal(t, left, r.holding(textPrompt(long), 0))
		r.shrink(left - 1)
		r.audit()
	}
	require.Zero(t, r.total())
}

// cache-aware.md, section 2.2: what is used again is young again, and what is only matched is not.
func TestARecordMakesThePromptYoungForItsWorkerAlone(t *testing.T) {
	r := newRig(t, 2, Settings{})
	r.put(textPrompt("first"), 0)
	r.put(textPrompt("first"), 1)
	r.put(textPrompt("second"), 1)
	r.put(textPrompt("first"), 1)
	r.has(textPrompt("first"), 0)
	r.shrink(11)
	require.ElementsMatch(t, []string{"first 1", "second 1"}, r.drawing(r.texts()))
}

// cache-aware.md, section 2.4: the order holds over ranges of stamps that one walk does not resolve.
func TestEvictionFindsTheOldestAmongMany(t *testing.T) {
	r := newRig(t, 4, Settings{})
	r.memory.stamp.Store(1 << 40)
	const n = 6000
	for i := range n {
		if i == n/2 {
			r.memory.stamp.Add(1 << 30)
		}
		r.put(textPrompt(scattered(64, uint64(i))), i%4)
	}
	r.shrink(r.total() / 4)
	r.audit()
	for i := range n {
		has := r.holding(textPrompt(scattered(64, uint64(i))), i%4) == 64
		if i < n*70/100 || i > n*80/100 { // between, the order is not kept
			require.Equal(t, i > n*3/4, has, "prompt %d of %d", i, n)
		}
	}
}

// cache-aware.md, section 2.4: a tree that outgrows its limit by a tenth is cut back without waiting for the interval.
func TestATreeThatOutgrowsItsLimitAsksForUpkeep(t *testing.T) {
	set, err := NewSet("cache_aware", Settings{MaxTreeSize: 1000}, nil, nil)
	require.NoError(t, err)
	p := set.Default().(*cacheAware)
	_, all := fleet(t, 1)
	r := &rig{p.index, t, all}
	asked := func() bool { return len(set.upkeep.woken) > 0 }
	for i := range 11 {
		require.False(t, asked(), "after %d", i)
		r.put(textPrompt(scattered(100, uint64(i))), 0)
	}
	require.False(t, asked(), "1100 is not beyond a tenth")
	r.put(textPrompt(scattered(100, 11)), 0)
	require.True(t, asked())
	p.Upkeep(time.Now())
	require.LessOrEqual(t, r.total(), 1000)
	require.Greater(t, r.total(), 800, "no more goes than has to")
	r.audit()
}

// cache-aware.md, section 2.4: a prompt that is larger than a tree does not turn everything else out for nothing.
func TestAPromptIsRecordedAsFarAsTheTreeIsLarge(t *testing.T) {
	r := newRig(t, 1, Settings{MaxTreeSize: 1000})
	for _, text := range []string{prose(5000, 1), "é" + prose(5000, 2), prose(900, 3) + "日本語" + prose(4000, 4)} {
		r.put(textPrompt(text), 0)
		matched, input := r.has(textPrompt(text), 0)
		require.Equal(t, 1000, matched)
		require.Equal(t, characters(text), input, "the input is the whole prompt")
	}
	r.put(sequence(0, 5000), 0)
	matched, input := r.has(sequence(0, 5000), 0)
	require.Equal(t, 1000/16*16, matched)
	require.Equal(t, 5000, input)
	r.audit()
}

// DECISIONS.md 57: the cap in bytes holds at every moment, and what does not fit is served all the same.
func TestIndexNeverExceedsItsMemory(t *testing.T) {
	for _, length := range []int{10, 64, 1000, 100_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			r := newRig(t, 4, Settings{IndexMemory: 1 << 20})
			most, full := int64(0), false
			for i := range (3 << 20) / (length + 150) { // what three times the memory would hold
				r.put(textPrompt(scattered(length, uint64(i))), i%4)
				most, full = max(most, r.memory.used.Load()), full || r.memory.tight()
				if i%1000 == 999 {
					r.sweep()
				}
			}
			require.LessOrEqual(t, most, int64(1<<20)*105/100)
			require.True(t, full, "it has been full")
			r.audit()
			r.sweep()
			require.False(t, r.memory.tight())
			last := textPrompt(scattered(length, 1<<40))
			r.put(last, 0)
			require.Equal(t, length, r.holding(last, 0), "there is room again")
			r.audit()
		})
	}
}

// DECISIONS.md 57: the cap is of all indexes of the process.
func TestIndexesShareTheMemoryOfTheProcess(t *testing.T) {
	shared := Settings{IndexMemory: 1 << 20}
	shared.memory = newIndexMemory(1 << 20)
	one, other := newRig(t, 1, shared), newRig(t, 1, shared)
	for i := range 3000 {
		one.put(textPrompt(scattered(100, uint64(i))), 0)
		other.put(textPrompt(scattered(100, uint64(i))), 0)
	}
	require.LessOrEqual(t, shared.memory.used.Load(), int64(1<<20)*105/100)
	require.True(t, shared.memory.full() || shared.memory.tight())
	one.sweep()
	require.False(t, shared.memory.tight())
	require.Equal(t, shared.memory.used.Load(), auditTree(t, one.texts())+auditTree(t, other.texts()))
}

// cache-aware.md, section 2.5
func TestARemovedWorkerIsForgottenAtOnce(t *testing.T) {
	r := newRig(t, 2, Settings{})
	abc := textPrompt("abc")
	r.put(abc, 0)
	r.put(abc, 1)
	r.forget(r.workers[0])
	require.Equal(t, 3, r.total())
	require.Zero(t, r.holding(abc, 0))
	require.Equal(t, 3, r.holding(abc, 1))
	r.audit()
	r.sweep()
	require.Equal(t, []string{"abc 1"}, r.drawing(r.texts()))
	r.audit()
	r.forget(r.workers[1])
	r.sweep()
	require.Empty(t, *r.trees.Load(), "a tree without workers goes")
	require.Zero(t, r.memory.used.Load())
}

// cache-aware.md, section 2.5: a request that chose the worker before it was removed records nothing.
func TestNothingIsRecordedForARemovedWorker(t *testing.T) {
	r := newRig(t, 2, Settings{})
	p := textPrompt("abcdef")
	v := r.look("m", &p)
	r.forget(r.workers[0])
	require.Zero(t, r.record(v, r.workers[0]))
	v.close()
	require.Zero(t, r.total())

	r.put(p, 1)
	v = r.look("m", &p)
	r.forget(r.workers[1])
	require.Zero(t, r.record(v, r.workers[1]))
	v.close()
	for range 3 { // it does not come back with the next upkeeps
		r.sweep()
		r.put(p, 0)
		require.Zero(t, r.total())
	}
}

// cache-aware.md, sections 2.5 and 2.6: a worker that comes later gets nothing of one that is gone, though it may get its place.
func TestALaterWorkerInheritsNothing(t *testing.T) {
	registry, all := fleet(t, 2)
	r := &rig{newPrefixIndex(Settings{}), t, all}
	p := textPrompt("a prompt that both know")
	r.put(p, 0)
	r.put(p, 1)
	slot := all[0].Slot()
	require.True(t, registry.Remove(all[0]))
	r.forget(all[0])
	later := worker(t, "http://127.0.0.1:99", nil)
	require.NoError(t, registry.Add(later))
	require.Equal(t, slot, later.Slot())
	r.workers = append(r.workers, later)
	require.Zero(t, r.holding(p, 2), "before the old one has been collected")
	r.put(textPrompt("something else"), 2)
	require.Zero(t, r.holding(p, 2))
	r.sweep()
	require.Zero(t, r.holding(p, 2), "after it")
	r.put(p, 2)
	require.Equal(t, 23, r.holding(p, 2))
	r.audit()
	for range 50 { // ids are used again
		r.forget(r.workers[2])
		r.sweep()
		r.workers[2] = worker(t, "http://127.0.0.1:99", nil)
		r.put(p, 2)
	}
	require.LessOrEqual(t, len(*r.texts().tenants.byID.Load()), 5)
	r.audit()
}

// telemetry.md 4.6: the sizes after each upkeep; the series of a tree that is gone go with it.
func TestUpkeepPublishesTheSizes(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{}).Policies
	r := newRig(t, 2, Settings{})
	r.put(textPrompt("hello"), 0)
	r.put(textPrompt("hello"), 1)
	r.put(sequence(0, 32), 1)
	r.upkeep(time.Now(), m)
	require.EqualValues(t, 10, testutil.ToFloat64(m.TreeChars.WithLabelValues("m")))
	require.EqualValues(t, 32, testutil.ToFloat64(m.TreeTokens.WithLabelValues("m")))
	require.EqualValues(t, 2, testutil.ToFloat64(m.TreeTenants.WithLabelValues("m", "string")))
	require.EqualValues(t, 1, testutil.ToFloat64(m.TreeTenants.WithLabelValues("m", "token")))
	require.EqualValues(t, r.memory.used.Load(), testutil.ToFloat64(m.IndexBytes))
	r.forget(r.workers[0])
	r.forget(r.workers[1])
	r.upkeep(time.Now(), m)
	require.Zero(t, testutil.CollectAndCount(m.TreeChars))
	require.Zero(t, testutil.CollectAndCount(m.TreeTokens))
	require.Zero(t, testutil.CollectAndCount(m.TreeTenants))
	require.Zero(t, testutil.ToFloat64(m.IndexBytes))
}

// DECISIONS.md 2
func TestARecordIsTakenBackAsFarAsNobodyElseUsedIt(t *testing.T) {
	tests := []struct {
		name          string
		before, after []string // prompts that are recorded before and after the one that is taken back; "1 text": for worker 1
		left          int      // of the prompt, for its worker
	}{
		{"all of it goes", nil, nil, 0},
		{"what was there before stays", []string{"0 a prompt"}, nil, 8},
		{"what a later request has used stays", nil, []string{"0 a prompt of words"}, 17},
		{"what a later request has extended stays", nil, []string{"0 a prompt of words and more"}, 17},
		{"what a later request shares in part stays in part", nil, []string{"0 a prompt in"}, 9},
		{"what other workers have is not the worker's", []string{"1 a prompt of words"}, []string{"1 a prompt of words"}, 0},
		{"what was there before stays, used or not", []string{"0 a prompt of words"}, nil, 17},
	}
	for _, tt := range tests {
		for i, partition := range []uint64{0, 7, 0} {
			joined := i == 2
			t.Run(fmt.Sprint(tt.name, partition, joined), func(t *testing.T) {
				r := newRig(t, 2, Settings{})
				put := func(text string, w int) receipt {
					return r.put(pipeline.RoutingPrompt{Text: text, Partition: partition}, w)
				}
				for _, b := range tt.before {
					put(b[2:], int(b[0]-'0'))
				}
				taken := put("a prompt of words", 0)
				for _, a := range tt.after {
					put(a[2:], int(a[0]-'0'))
				}
				if joined {
					r.texts().evict(0, inUnits)
				}
				p := pipeline.RoutingPrompt{Text: "a prompt of words", Partition: partition}
				others := r.holding(p, 1)
				r.takeBack(&p, taken)
				require.Equal(t, tt.left, r.holding(p, 0))
				require.Equal(t, others, r.holding(p, 1))
				r.audit()
				r.takeBack(&p, taken)
				require.Equal(t, tt.left, r.holding(p, 0), "once more changes nothing")
				r.audit()
			})
		}
	}
}

// cache-aware.md, section 2.1: who has a prefix has what is above it, whatever the stamps say.
func TestNobodyIsTakenOffAboveWhatHeHolds(t *testing.T) {
	r := newRig(t, 1, Settings{})
	r.put(textPrompt("abc"), 0)
	r.put(textPrompt("abcdef"), 0)
	tr := r.texts()
	path, who := tr.descend(nil, "abcdef", 0), tr.tenants.of(r.workers[0])
	require.Len(t, path, 2)
	require.False(t, tr.detach(&tr.root, path[0].n, who, 0, ^uint64(0)))
	require.True(t, tr.detach(path[0].n, path[1].n, who, 0, ^uint64(0)))
	require.False(t, tr.detach(path[0].n, path[1].n, who, 0, ^uint64(0)), "it is gone")
	require.True(t, tr.detach(&tr.root, path[0].n, who, 0, ^uint64(0)))
	r.audit()
}

// cache-aware.md, section 7: what was evicted between a look and its record is recorded anew, from the root on.
func TestARecordThatAnEvictionOvertookStartsAnew(t *testing.T) {
	for _, partition := range []uint64{0, 7} {
		r := newRig(t, 1, Settings{})
		known := pipeline.RoutingPrompt{Text: "a prompt", Partition: partition}
		longer := pipeline.RoutingPrompt{Text: "a prompt of words", Partition: partition}
		r.put(known, 0)
		who := r.texts().tenants.of(r.workers[0])
		v := r.look("m", &longer)
		stamp := r.memory.next()
		held := v.touch(who.id, stamp)
		require.Equal(t, 1, held)
		r.texts().evict(r.texts().total.Load(), inUnits)
		require.Zero(t, v.tree.attach(v, who, stamp, held), "all of it is new")
		v.close()
		require.Equal(t, 17, r.holding(longer, 0))
		r.audit()
	}
}
