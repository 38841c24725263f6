package policy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// keeper is a policy that counts its upkeeps.
type keeper struct {
	Policy
	name  string
	calls atomic.Int32
}

func (k *keeper) Name() string       { return k.name }
func (*keeper) Wants() pipeline.Want { return 0 }
func (k *keeper) Upkeep(time.Time)   { k.calls.Add(1) }

// knowKeepers puts two policies with upkeep into the table for one test. made are those that were made, by name, the last of each.
func knowKeepers(t *testing.T) (made func(name string) *keeper) {
	was := policies
	t.Cleanup(func() { policies = was })
	all := map[string]*keeper{}
	policies = was[:len(was):len(was)]
	for _, name := range []string{"keeper", "other_keeper"} {
		policies = append(policies, entry{name, func(Settings, *slog.Logger) Policy {
			all[name] = &keeper{Policy: Random(), name: name}
			return all[name]
		}})
	}
	return func(name string) *keeper { return all[name] }
}

// maintained runs a set's upkeep until the test ends.
func maintained(t *testing.T, set *Set) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		if err := set.Maintenance().Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
	}()
}

// cache-aware.md, section 2.4: every interval; policies.md, section 18: that of a policy from a label is the built-in one.
func TestUpkeepComesAtEveryInterval(t *testing.T) {
	made := knowKeepers(t)
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet("keeper", Settings{EvictionInterval: 10 * time.Second}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		set.WorkerAdded(labelled(t, 1, "m1", "other_keeper"))
		standard, own := made("keeper"), made("other_keeper")
		<-set.upkeep.woken // the set has asked for a look at the new policy
		maintained(t, set)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.Zero(t, standard.calls.Load())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, standard.calls.Load())
		require.Zero(t, own.calls.Load())
		time.Sleep(50 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 6, standard.calls.Load())
		require.EqualValues(t, 2, own.calls.Load(), "every thirty seconds")
	})
}

// policies.md, section 18, the table: cache_aware is kept every 30 s and manual every 60 s where a label asks for them, with sticky sessions
// before them as well.
func TestUpkeepOfPoliciesFromLabels(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		set, err := NewSet("random", Settings{EvictionInterval: 7 * time.Second, Sticky: sticky}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		for i, label := range []string{"cache_aware", "CacheAware", "manual", "Manual"} {
			set.WorkerAdded(labelled(t, i+1, label, label))
		}
		intervals := map[string][]time.Duration{}
		for p, interval := range set.kept() {
			intervals[p.Name()] = append(intervals[p.Name()], interval)
		}
		delete(intervals, "random")
		require.Equal(t, map[string][]time.Duration{"cache_aware": {30 * time.Second, 30 * time.Second}, "manual": {time.Minute, time.Minute}}, intervals)
	}
	set, err := NewSet("manual", Settings{EvictionInterval: 7 * time.Second}, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	set.WorkerAdded(labelled(t, 1, "m1", "manual"))
	for _, interval := range set.kept() {
		require.Equal(t, 7*time.Second, interval, "the operator's, for the operator's policy")
	}
}

// cache-aware.md, section 2.4: who asks for it is not kept waiting for the interval; without one there is no other upkeep.
func TestUpkeepComesWhenItIsAskedFor(t *testing.T) {
	made := knowKeepers(t)
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet("keeper", Settings{}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		maintained(t, set)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Zero(t, made("keeper").calls.Load())
		set.settings.wake()
		set.settings.wake()
		synctest.Wait()
		require.NotZero(t, made("keeper").calls.Load())
	})
}

// cache-aware.md, section 2.4: the same by a clock of one's own; a simulation is kept as a gateway is, at every interval or when somebody
// asks, and not more often.
func TestATickDoesWhatIsDue(t *testing.T) {
	made := knowKeepers(t)
	now := time.Unix(1000, 0)
	s := Settings{EvictionInterval: 10 * time.Second}
	s.Clock = func() time.Time { return now }
	set, err := NewSet("keeper", s, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	calls := func(ticks int) int32 {
		for range ticks {
			now = now.Add(time.Second)
			set.Tick()
		}
		return made("keeper").calls.Load()
	}
	require.Zero(t, calls(10))
	require.EqualValues(t, 1, calls(1), "its interval after it was first seen")
	require.EqualValues(t, 1, calls(9))
	require.EqualValues(t, 2, calls(1))
	set.settings.wake()
	require.EqualValues(t, 3, calls(1))
	require.EqualValues(t, 3, calls(9))
	require.EqualValues(t, 4, calls(1), "counted from the last one")
}

// policies.md, section 18: a policy that goes with its model is called once more, to let go of what it has, and never again.
func TestUpkeepEndsWithTheModel(t *testing.T) {
	made := knowKeepers(t)
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet("keeper", Settings{EvictionInterval: time.Hour}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		maintained(t, set)
		w := labelled(t, 1, "m1", "other_keeper")
		set.WorkerAdded(w)
		synctest.Wait()
		own := made("other_keeper")
		before := own.calls.Load()
		set.WorkerRemoved(w)
		synctest.Wait()
		require.Equal(t, before+1, own.calls.Load())
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Equal(t, before+1, own.calls.Load())
		require.NotZero(t, made("keeper").calls.Load())
	})
}

// A policy of the process's own that is dropped with its model gives its memory back.
func TestThePolicyOfAModelThatIsGoneKeepsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet("random", Settings{}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		maintained(t, set)
		w := labelled(t, 1, "m1", "cache_aware")
		set.WorkerAdded(w)
		p := set.For("m1").(*cacheAware)
		prompt := textPrompt("a prompt")
		v := p.index.look("m1", &prompt)
		p.index.record(v, w)
		v.close()
		require.NotZero(t, set.settings.memory.used.Load())
		synctest.Wait()
		set.WorkerRemoved(w)
		synctest.Wait()
		require.Zero(t, set.settings.memory.used.Load())
	})
}
