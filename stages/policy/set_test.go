package policy

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// served is a set that follows a registry, and what it says.
type served struct {
	*Set
	registry *workers.Registry
	demand   *pipeline.Demand
	said     *records
	ports    int
}

func newServed(t testing.TB, standard string) *served {
	t.Helper()
	said, log := newRecords()
	demand := &pipeline.Demand{}
	set, err := NewSet(standard, Settings{}, demand, log)
	require.NoError(t, err)
	s := &served{Set: set, registry: workers.NewRegistry(), demand: demand, said: said}
	t.Cleanup(s.registry.Listen(set))
	return s
}

// add registers a worker of a model, with a label "policy" unless that is "".
func (s *served) add(t testing.TB, model, label string) *workers.Worker {
	t.Helper()
	s.ports++
	w := labelled(t, s.ports, model, label)
	require.NoError(t, s.registry.Add(w))
	return w
}

func labelled(t testing.TB, port int, model, label string) *workers.Worker {
	t.Helper()
	labels := map[string]string{"model_id": model}
	if label != "" {
		labels["policy"] = label
	}
	return worker(t, fmt.Sprintf("http://127.0.0.1:%d", port), labels)
}

// policies.md, section 18
func TestTheFirstWorkerOfAModelDecidesItsPolicy(t *testing.T) {
	tests := []struct {
		name   string
		labels []string // of the model's workers, in the order of their registration
		want   string
		own    bool // the model has an instance of its own, else it shares the default
	}{
		{"without a label it is the default", []string{""}, "round_robin", false},
		{"a label of another type gives the model an instance of its own", []string{"power_of_two"}, "power_of_two", true},
		{"a label of the default's type does so too", []string{"round_robin"}, "round_robin", true},
		{"a later label changes nothing", []string{"power_of_two", "random"}, "power_of_two", true},
		{"a later label changes nothing for a model that shares the default", []string{"", "random"}, "round_robin", false},
		{"a label may be spelt as a type", []string{"PowerOfTwo"}, "power_of_two", true},
		{"a label may be spelt without underscores", []string{"poweroftwo"}, "power_of_two", true},
		{"a label may be in capitals", []string{"RANDOM"}, "random", true},
		{"a label of the default's type may be spelt so as well", []string{"RoundRobin"}, "round_robin", true},
		{"a label that names no policy is the default", []string{"foo"}, "round_robin", false},
		{"the unknown label had its say: the next one is too late", []string{"foo", "random"}, "round_robin", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServed(t, "round_robin")
			for _, label := range tt.labels {
				s.add(t, "m1", label)
			}
			require.Equal(t, tt.want, s.For("m1").Name())
			require.Equal(t, tt.own, s.For("m1") != s.Default())
		})
	}
}

// policies.md, section 18: models do not share what a label gave one of them.
func TestEachModelHasItsOwnPolicy(t *testing.T) {
	s := newServed(t, "round_robin")
	s.add(t, "m1", "RoundRobin")
	s.add(t, "m2", "random")
	s.add(t, "m3", "")
	s.add(t, "m4", "round_robin")
	require.Equal(t, "round_robin", s.For("m1").Name())
	require.NotSame(t, s.For("m1"), s.For("m4"))
	require.Equal(t, "random", s.For("m2").Name())
	require.Same(t, s.Default(), s.For("m3"))
	for _, none := range []string{"", "unknown", "m5"} {
		require.Same(t, s.Default(), s.For(none), "a request for %q", none)
	}
}

// policies.md, section 18: unknown label.
func TestAnUnknownLabelIsWarnedOf(t *testing.T) {
	s := newServed(t, "random")
	w := s.add(t, "m1", "foo")
	warnings := s.said.at(t, slog.LevelWarn)
	require.Len(t, warnings, 1)
	require.Equal(t, "m1", warnings[0]["model_id"])
	require.Equal(t, "foo", warnings[0]["label"])
	require.Equal(t, w.URL(), warnings[0]["worker"])
}

// policies.md, section 18: the life cycle, with the lines that tell of it.
func TestAModelKeepsItsPolicyUntilItsLastWorkerIsGone(t *testing.T) {
	s := newServed(t, "round_robin")
	first, second := s.add(t, "m1", "random"), s.add(t, "m1", "power_of_two")
	kept := s.For("m1")
	require.True(t, s.registry.Remove(first))
	require.Equal(t, kept, s.For("m1"), "the one who decided may go")
	require.True(t, s.registry.Remove(second))
	require.Same(t, s.Default(), s.For("m1"))
	s.add(t, "m1", "power_of_two")
	require.Equal(t, "power_of_two", s.For("m1").Name(), "the next one decides anew")

	var told []string
	for _, r := range s.said.at(t, slog.LevelInfo) {
		require.Equal(t, "m1", r["model_id"])
		told = append(told, fmt.Sprint(r["msg"], ": ", r["policy"]))
	}
	require.Equal(t, []string{
		"policy assigned to a new model: random", "policy removed with its model: random", "policy assigned to a new model: power_of_two",
	}, told)
}

// policies.md, section 18: deciding and publishing are one step.
func TestTwoFirstWorkersAtOnceGetOnePolicy(t *testing.T) {
	for round := range 50 {
		s := newServed(t, "round_robin")
		two := []*workers.Worker{labelled(t, 1, "m1", "random"), labelled(t, 2, "m1", "power_of_two")}
		var got [2]Policy
		var adding sync.WaitGroup
		for i, w := range two {
			adding.Go(func() {
				s.WorkerAdded(w) // not through the registry, whose lock would put them in order
				got[i] = s.For("m1")
			})
		}
		adding.Wait()
		require.Equal(t, got[0], got[1], "round %d", round)
		require.Equal(t, got[0], s.For("m1"))
		require.Len(t, s.said.at(t, slog.LevelInfo), 1, "assigned once")

		s.WorkerRemoved(two[round%2])
		require.Equal(t, got[0], s.For("m1"), "both were counted")
		s.WorkerRemoved(two[1-round%2])
		require.Same(t, s.Default(), s.For("m1"))
	}
}

// policies.md, section 18: removing from an unknown model is a warning only.
func TestRemovingAWorkerThatWasNeverAddedIsAWarning(t *testing.T) {
	s := newServed(t, "random")
	s.WorkerRemoved(labelled(t, 1, "m1", ""))
	require.Len(t, s.said.at(t, slog.LevelWarn), 1)
	s.add(t, "m1", "power_of_two")
	require.Equal(t, "power_of_two", s.For("m1").Name(), "it is not counted against the model")
}

// policies.md, section 18: legs have policies of their own.
func TestWorkersOfALegDecideNothing(t *testing.T) {
	s := newServed(t, "round_robin")
	for i, typ := range []workers.Type{workers.Prefill, workers.Decode, workers.Encode} {
		spec := workers.NewSpec(fmt.Sprintf("http://127.0.0.1:%d", i+1))
		spec.WorkerType, spec.Labels = typ, map[string]string{"model_id": "m1", "policy": "random"}
		w, err := workers.New(spec, workers.DefaultSettings())
		require.NoError(t, err)
		require.NoError(t, s.registry.Add(w))
		require.Same(t, s.Default(), s.For("m1"), "a %v worker", typ)
		require.True(t, s.registry.Remove(w))
	}
	require.Empty(t, s.said.at(t, slog.LevelWarn))
}

// policies.md, section 18: a replacement under the same URL may bring another model.
func TestAReplacedWorkerMovesToItsNewModel(t *testing.T) {
	s := newServed(t, "round_robin")
	was := s.add(t, "m1", "random")
	policyOfM1 := s.For("m1")
	s.WorkerReplaced(was, labelled(t, 1, "m1", "power_of_two"))
	require.Equal(t, policyOfM1, s.For("m1"), "the same model is not without a worker in between")

	s.WorkerReplaced(labelled(t, 1, "m1", ""), labelled(t, 1, "m2", "power_of_two"))
	require.Same(t, s.Default(), s.For("m1"))
	require.Equal(t, "power_of_two", s.For("m2").Name())
}

// reader is a policy that reads prompts and loads, and remembers whom it was told to forget.
type reader struct {
	Policy
	forgotten []*workers.Worker
}

func (*reader) Name() string               { return "reader" }
func (*reader) Wants() pipeline.Want       { return pipeline.WantText | pipeline.WantLoads }
func (r *reader) Forget(w *workers.Worker) { r.forgotten = append(r.forgotten, w) }

// knowReader puts a reader into the table of policies for one test. made is the last one.
func knowReader(t *testing.T) (made func() *reader) {
	was := policies
	t.Cleanup(func() { policies = was })
	var last *reader
	policies = append(policies[:len(policies):len(policies)], entry{"reader", func(Settings, *slog.Logger) Policy {
		last = &reader{Policy: Random()}
		return last
	}})
	return func() *reader { return last }
}

// DESIGN, "Demand": what live policies read is raised and dropped as models come and go.
func TestDemandFollowsTheLivePolicies(t *testing.T) {
	knowReader(t)
	s := newServed(t, "random")
	first, second := s.add(t, "m1", "reader"), s.add(t, "m2", "reader")
	third := s.add(t, "m1", "")
	require.True(t, s.demand.Text())
	require.True(t, s.demand.Loads())
	require.False(t, s.demand.Tokens(), "nobody reads those")
	for _, w := range []*workers.Worker{first, second} {
		require.True(t, s.registry.Remove(w))
		require.True(t, s.demand.Text(), "one of them still reads")
	}
	require.True(t, s.registry.Remove(third))
	require.False(t, s.demand.Text())
	require.False(t, s.demand.Loads())

	standard := newServed(t, "reader")
	require.True(t, standard.demand.Text(), "the default is always alive")
	require.True(t, standard.registry.Remove(standard.add(t, "m1", "")))
	require.True(t, standard.demand.Text())
}

// policies.md, section 18: on removal, whoever may keep books on the worker is told, once.
func TestPoliciesAreToldToForgetARemovedWorker(t *testing.T) {
	made := knowReader(t)
	s := newServed(t, "reader")
	standard := s.Default().(*reader)
	shared, own := s.add(t, "m1", ""), s.add(t, "m2", "reader")
	mine := made()
	require.NotSame(t, standard, mine)
	require.True(t, s.registry.Remove(shared))
	require.Equal(t, []*workers.Worker{shared}, standard.forgotten)
	require.Empty(t, mine.forgotten, "another model's policy is not concerned")
	require.True(t, s.registry.Remove(own))
	require.Equal(t, []*workers.Worker{own}, mine.forgotten)
	require.Equal(t, []*workers.Worker{shared, own}, standard.forgotten, "requests that name no model use the default")
}

// policies.md, section 18: requests read while models come and go.
func TestForIsSafeWhileModelsComeAndGo(t *testing.T) {
	s := newServed(t, "round_robin")
	w := labelled(t, 1, "m1", "random")
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !stop.Load() {
				if name := s.For("m1").Name(); name != "random" && name != "round_robin" {
					t.Errorf("got %s", name)
				}
			}
		})
	}
	for range 300 {
		s.WorkerAdded(w)
		s.WorkerRemoved(w)
	}
	stop.Store(true)
	readers.Wait()
	require.Same(t, s.Default(), s.For("m1"))
}

// policies.md, section 18, first three Checks and the table of built-in values: a label that names the default's type takes the
// operator's settings, one that names another type takes none of them.
func TestWhatAPolicyFromALabelIsTunedWith(t *testing.T) {
	operator := BuiltIn(Shared{})
	operator.CacheThreshold, operator.BalanceAbs, operator.BalanceRel, operator.EvictionInterval, operator.MaxTreeSize = 0.9, 64, 1.5, 7*time.Second, 1<<26
	operator.KVPressureWeight, operator.MeanPrefillTokens, operator.DefaultThroughput, operator.MaxWaiting = 0.4, 2048, 555, 48
	operator.MaxIdle, operator.Assignment, operator.BucketRel, operator.BucketInterval = time.Hour, AssignMinLoad, 0, time.Second
	operator.PrefixTokens, operator.PrefixLoadFactor, operator.PrefixBalanceAbs, operator.Boundaries = 512, 2, 20, []int{16}
	type tuning struct {
		abs              int64
		threshold, rel   float64
		tree             int64
		sweep, idle      time.Duration
		mode             Assignment
		weight, rate     float64
		mean, cap        int64
		tokens, prefixes int
		factor           float64
	}
	of := func(t *testing.T, p Policy) tuning {
		switch p := p.(type) {
		case *cacheAware:
			return tuning{threshold: p.CacheThreshold, abs: p.BalanceAbs, rel: p.BalanceRel, sweep: p.EvictionInterval, tree: p.MaxTreeSize}
		case *manual:
			return tuning{sweep: p.interval, idle: p.idle, mode: p.assign}
		case *leastLoad:
			return tuning{weight: p.scorer.weight, rate: p.scorer.throughput, mean: p.scorer.meanPrefill, cap: p.scorer.maxWaiting}
		case *prefixHash:
			return tuning{tokens: p.tokens, factor: p.factor, abs: int64(p.abs), prefixes: len(p.boundaries)}
		case *bucket:
			return tuning{abs: p.abs, rel: p.rel, sweep: p.interval}
		}
		require.FailNow(t, "another policy", p.Name())
		return tuning{}
	}
	tests := []struct {
		name, standard, label string
		want                  tuning
	}{
		{"cache_aware beside round_robin", "round_robin", "cache_aware", tuning{threshold: 0.5, abs: 32, rel: 1.1, sweep: 30 * time.Second, tree: 10000}},
		{"cache_aware beside its like", "cache_aware", "CacheAware", tuning{threshold: 0.9, abs: 64, rel: 1.5, sweep: 7 * time.Second, tree: 1 << 26}},
		{"least_load beside round_robin", "round_robin", "LEASTLOAD", tuning{weight: 0.15, rate: 2000, mean: 1024}},
		{"least_load beside its like", "least_load", "least_load", tuning{weight: 0.4, rate: 555, mean: 2048, cap: 48}},
		{"manual beside round_robin", "round_robin", "manual", tuning{sweep: time.Minute, idle: 4 * time.Hour, mode: AssignRandom}},
		{"manual beside its like", "manual", "Manual", tuning{sweep: 7 * time.Second, idle: time.Hour, mode: AssignMinLoad}},
		{"prefix_hash beside round_robin", "round_robin", "PrefixHash", tuning{tokens: 256, factor: 1.25, abs: 10}},
		{"prefix_hash beside its like", "prefix_hash", "prefix_hash", tuning{tokens: 512, factor: 2, abs: 20, prefixes: 1}},
		{"bucket beside round_robin", "round_robin", "bucket", tuning{abs: 32, rel: 1.0001, sweep: 5 * time.Second}},
		{"bucket beside its like", "bucket", "bucket", tuning{abs: 64, rel: 1.5, sweep: time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, err := NewSet(tt.standard, operator, nil, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			set.WorkerAdded(labelled(t, 1, "m1", tt.label))
			require.NotSame(t, set.Default(), set.For("m1"), "an instance of its own")
			require.Equal(t, tt.want, of(t, set.For("m1")))
			if tt.standard != "round_robin" {
				require.Equal(t, tt.want, of(t, set.Default()))
			}
		})
	}
}
