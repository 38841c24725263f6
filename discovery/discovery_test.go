package discovery

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

const ms = time.Millisecond

// acted is the number of passes that have submitted something.
func acted(t *testing.T, s *stage) (n uint64) {
	t.Helper()
	families, err := s.metrics.Registry().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "smg_discovery_sync_duration_seconds" {
			n += f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return n
}

// discovery.md section 9, DECISIONS 51: what happens to one pod, and when.
func TestWorkersComeAndGoWithTheirClaims(t *testing.T) {
	type step struct {
		at     time.Duration
		wanted []string // nil: as before
		fleet  []string // then
	}
	none := []string{}
	tests := []struct {
		name  string
		steps []step
		jobs  [2]int // added, removed
	}{
		{"a ready pod is registered at once when the source has been read", []step{
			{0, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
		}, [2]int{1, 0}},
		{"a pod that turns ready later is registered within 50 ms", []step{
			{0, none, nil},
			{5000 * ms, []string{"a:1=u1"}, nil},
			{5049 * ms, nil, nil},
			{5050 * ms, nil, []string{"a:1 u1 ready"}},
		}, [2]int{1, 0}},
		{"a pod that turns unready gets nothing new at once, drains a second later and is gone when it has drained", []step{
			{0, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
			{5000 * ms, none, []string{"a:1 u1 ready cordoned"}},
			{5999 * ms, nil, []string{"a:1 u1 ready cordoned"}},
			{6050 * ms, nil, []string{"a:1 u1 draining"}},
			{11_100 * ms, nil, nil},
		}, [2]int{1, 1}},
		{"D17: unready for 0.3 s", []step{
			{0, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
			{5000 * ms, none, []string{"a:1 u1 ready cordoned"}},
			{5300 * ms, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
			{20_000 * ms, nil, []string{"a:1 u1 ready"}},
		}, [2]int{1, 0}},
		{"D18: ready again in the drain, which is not called off; back a second after it", []step{
			{0, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
			{5000 * ms, none, []string{"a:1 u1 ready cordoned"}},
			{8000 * ms, []string{"a:1=u1"}, []string{"a:1 u1 draining"}},
			{10_900 * ms, nil, []string{"a:1 u1 draining"}},
			{11_200 * ms, nil, nil},
			{12_200 * ms, nil, []string{"a:1 u1 ready"}},
		}, [2]int{2, 1}},
		{"D15: another pod at the same address comes when the old one has drained", []step{
			{0, []string{"a:1=u1"}, []string{"a:1 u1 ready"}},
			{5000 * ms, []string{"a:1=u2"}, []string{"a:1 u1 ready cordoned"}},
			{6100 * ms, nil, []string{"a:1 u1 draining"}},
			{10_900 * ms, nil, []string{"a:1 u1 draining"}},
			{11_200 * ms, nil, []string{"a:1 u2 ready"}},
			{60_000 * ms, nil, []string{"a:1 u2 ready"}},
		}, [2]int{2, 1}},
		{"others are not touched", []step{
			{0, []string{"a:1=u1", "b:1=u2"}, []string{"a:1 u1 ready", "b:1 u2 ready"}},
			{5000 * ms, []string{"b:1=u2", "c:1=u3"}, []string{"a:1 u1 ready cordoned", "b:1 u2 ready"}},
			{12_000 * ms, nil, []string{"b:1 u2 ready", "c:1 u3 ready"}},
		}, [2]int{3, 1}},
		{"all may go", []step{
			{0, []string{"a:1=u1", "b:1=u2"}, []string{"a:1 u1 ready", "b:1 u2 ready"}},
			{5000 * ms, none, []string{"a:1 u1 ready cordoned", "b:1 u2 ready cordoned"}},
			{12_000 * ms, nil, nil},
		}, [2]int{2, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				for i, st := range tt.steps {
					s.until(st.at)
					if st.wanted != nil {
						s.set(st.wanted...)
						synctest.Wait()
					}
					require.Equal(t, st.fleet, s.fleet(), "step %d", i)
				}
				series := s.metrics.Discovery.Source("kubernetes")
				require.Equal(t, tt.jobs, [2]int{int(testutil.ToFloat64(series.Registered)), int(testutil.ToFloat64(series.Deregistered))})
			})
		})
	}
}

// discovery.md section 10 and D23: the pod is gone when its registration ends. DECISIONS 51: it gets no request.
func TestAWorkerThatComesTooLateIsCordonedAndRemoved(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.set("a:1=u1")
		s.until(2000 * ms)
		s.set()
		s.until(9999 * ms)
		require.Empty(t, s.fleet(), "one pass and another have left the address alone")
		s.until(10_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready cordoned"}, s.fleet())
		s.until(11_500 * ms)
		require.Equal(t, []string{"a:1 u1 draining"}, s.fleet())
		s.until(17_000 * ms)
		require.Empty(t, s.fleet())
		s.set("a:1=u1")
		s.until(40_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready"}, s.fleet(), "wanted again, it is nobody's ghost")
	}, func(s *stage) { s.takes = 10 * time.Second })
}

// discovery.md section 11 and DECISIONS 51: a cordon ends with the ownership.
func TestAWorkerThatBecomesManualIsLetGo(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.set("a:1=u1")
		s.until(5000 * ms)
		s.set()
		synctest.Wait()
		require.Equal(t, []string{"a:1 u1 ready cordoned"}, s.fleet())
		id := s.registry.All()[0].ID()
		require.NoError(t, s.Update(id, workers.Patch{Priority: new(uint32(7))}))
		synctest.Wait()
		require.Equal(t, []string{"a:1 u1 ready cordoned"}, s.fleet(), "a change keeps the labels, and the cordon")
		require.NoError(t, s.Update(id, workers.Patch{Labels: map[string]string{LabelPodUID: "u9"}}))
		s.until(20_000 * ms)
		require.Empty(t, s.fleet(), "somebody else's uid, that no pod has")
	})
	onStage(t, func(t *testing.T, s *stage) {
		s.set("a:1=u1")
		s.until(5000 * ms)
		s.set()
		require.Equal(t, []string{"a:1 u1 ready cordoned"}, s.fleet())
		require.NoError(t, s.Update(s.registry.All()[0].ID(), workers.Patch{Labels: map[string]string{LabelProvider: "nobody"}}))
		synctest.Wait()
		require.True(t, s.registry.All()[0].Candidate(), "no pass has been waited for")
		s.until(90_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready"}, s.fleet(), "it stays")
	}, func(s *stage) { s.name = "file" })
}

// discovery.md section 8, row 6 and D25.
func TestAManualWorkerIsNeverTouched(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		require.NoError(t, s.enter(workers.NewSpec("http://a:1")))
		manual := s.registry.All()[0]
		s.set("a:1=u1", "b:1=u2")
		s.until(200_000 * ms)
		require.Equal(t, []string{"a:1  ready", "b:1 u2 ready"}, s.fleet())
		require.Same(t, manual, s.registry.All()[0])
		require.Equal(t, 1, s.log.count("Worker address a:1 has a worker that was added by hand"), "one line, not one in each of %d passes", s.passes.Load())
		require.NoError(t, s.Remove(manual.ID()))
		s.until(270_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready", "b:1 u2 ready"}, s.fleet())
		s.set()
		s.until(280_000 * ms)
		require.Empty(t, s.fleet())
	})
}

// discovery.md section 9 and D20: the timer's pass heals what no event tells of.
func TestARemovedWorkerComesBackWithTheTimer(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.set("a:1=u1")
		s.until(10_000 * ms)
		was := s.registry.All()[0].ID()
		require.NoError(t, s.Remove(was))
		s.until(59_999 * ms)
		require.Empty(t, s.fleet())
		s.until(60_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready"}, s.fleet())
		require.NotEqual(t, was, s.registry.All()[0].ID())
		require.EqualValues(t, 2, s.passes.Load())
	})
}

// discovery.md section 6 and D36.
func TestTwoPodsAtOneAddressDoNotFlap(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.set("a:1=u1")
		s.until(5000 * ms)
		for i := range 20 {
			s.until(time.Duration(10+2*i) * time.Second)
			s.set("a:1=u1", "a:1=u2", fmt.Sprintf("x:%d=v", i+1))
		}
		s.until(200_000 * ms)
		require.Contains(t, s.fleet(), "a:1 u1 ready")
		require.NotContains(t, s.fleet(), "a:1 u2 ready")
		require.Equal(t, 1, s.log.count("u1 and u2 both claim worker address a:1, which is u1's"))
		require.Equal(t, 2.0, testutil.ToFloat64(s.metrics.Discovery.Source("kubernetes").Discovered), "addresses are counted, not claims")
		s.set("a:1=u2")
		s.until(220_000 * ms)
		require.Equal(t, []string{"a:1 u2 ready"}, s.fleet())
	})
}

// discovery.md sections 17 and 18.
func TestPassesAreCountedAndLogged(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.set("10.0.0.6:8000=u1", "10.0.0.5:8000=u2")
		s.until(70_000 * ms)
		series := s.metrics.Discovery.Source("kubernetes")
		require.Equal(t, 2.0, testutil.ToFloat64(series.Discovered))
		require.Equal(t, 2.0, testutil.ToFloat64(series.Registered))
		s.set("10.0.0.5:8000=u2")
		s.until(80_000 * ms)
		require.Equal(t, 1.0, testutil.ToFloat64(series.Discovered))
		require.Equal(t, 1.0, testutil.ToFloat64(series.Deregistered))
		require.Zero(t, testutil.ToFloat64(series.Refused))
		require.EqualValues(t, 2, acted(t, s), "those that did something")
		for _, line := range []string{
			`"Reconciling workers: 2 to add, 0 to remove (2 desired)"`,
			`"Registering worker 10.0.0.5:8000 (Regular) for pod u2"`,
			`"Reconciling workers: 0 to add, 1 to remove (1 desired)"`,
			`"Removing worker 10.0.0.6:8000 (1 registration(s), pod u1): pod unready, gone, terminating, or replaced"`,
			`"Draining 1 worker(s) for 5s before removal"`,
		} {
			require.Equal(t, 1, s.log.count(line), line)
		}
		require.Equal(t, 2, s.log.count("Reconciling workers"))
	})
}

// discovery.md section 8: a pass waits while the queue is full, loses nothing, and ends with the process (D13, D40).
func TestAPassWaitsForAFullQueue(t *testing.T) {
	small := func(s *stage) {
		s.takes = time.Second
		s.prompt.Enroller = workers.NewEnroller(s.registry, s.settings, workers.DefaultStartup(), nil, workers.WithJobs(workers.JobSettings{Capacity: 2, Concurrency: 1}))
	}
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("a:%d=u", i+1))
	}
	onStage(t, func(t *testing.T, s *stage) {
		s.busy(t, 8)
		s.set(all...)
		s.until(5000 * ms)
		require.Empty(t, s.fleet(), "others work")
		require.Zero(t, s.passes.Load(), "it is one pass, and not over")
		s.until(30_000 * ms)
		require.Len(t, s.fleet(), 20)
		require.Equal(t, 20.0, testutil.ToFloat64(s.metrics.Discovery.Source("kubernetes").Registered))
	}, small)
	onStage(t, func(t *testing.T, s *stage) {
		s.busy(t, 8)
		s.set(all...)
		s.until(2000 * ms)
		s.set(all[:19]...) // while the pass waits: the last one is not added any more
		require.NoError(t, s.enter(workers.NewSpec("http://a:9")))
		s.until(30_000 * ms)
		require.Len(t, s.fleet(), 19)
		require.Contains(t, s.fleet(), "a:9  ready", "put there by hand while the pass waited")
	}, small)
	onStage(t, func(t *testing.T, s *stage) {
		s.busy(t, 8)
		s.set(all...)
		s.until(2000 * ms)
		s.stop()
		synctest.Wait()
		require.NoError(t, <-s.ended)
		require.Zero(t, testutil.ToFloat64(s.metrics.Discovery.Source("kubernetes").Refused))
	}, small)
}

// DECISIONS 51: no cordon outlives the discovery that put it on.
func TestEverybodyIsLetGoAtTheEnd(t *testing.T) {
	ends := map[string]func(*stage) error{
		"it is stopped":       func(s *stage) error { s.stop(); return nil },
		"its source gives up": func(s *stage) error { err := errors.New("no more"); s.broken <- err; return err },
		"its source panics": func(s *stage) error {
			s.panics = true
			s.broken <- errors.New("boom")
			return errors.New("source kubernetes: panic: boom")
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				s.set("a:1=u1")
				s.until(5000 * ms)
				s.set()
				synctest.Wait()
				require.Equal(t, []string{"a:1 u1 ready cordoned"}, s.fleet())
				want := end(s)
				synctest.Wait()
				if got := <-s.ended; want == nil {
					require.NoError(t, got)
				} else {
					require.EqualError(t, got, want.Error())
				}
				require.Equal(t, []string{"a:1 u1 ready"}, s.fleet())
			})
		})
	}
}

// discovery.md section 5: nothing is decided by a source that has not been read.
func TestASourceThatHasNotBeenReadRemovesNobody(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		spec := workers.NewSpec("http://a:1")
		spec.Labels = map[string]string{LabelPodUID: "u1"}
		require.NoError(t, s.enter(spec))
		s.until(200_000 * ms)
		require.Equal(t, []string{"a:1 u1 ready"}, s.fleet())
		require.EqualValues(t, 3, s.passes.Load())
		s.set()
		s.until(206_000 * ms)
		require.Empty(t, s.fleet(), "now it has: section 11, a label makes it owned")
	})
}
