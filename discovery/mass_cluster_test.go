package discovery_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// rare probes, so that what the mass of workers costs is their registration.
func rareProbes(cfg *server.Config) { cfg.HealthCheckInterval = 3600 }

// discovery.md, section 21: D12.
func TestD12AMassRolloutRegistersEachPodOnce(t *testing.T) {
	t.Parallel()
	massRollout(t, func(s *scene, pods []clustertest.Pod) {
		s.start(t, rareProbes)
		s.pods.RunAll(t, pods)
	})
}

// discovery.md, section 21: D13. A small queue makes a pass wait; it loses nothing and doubles nothing.
func TestD13ASmallQueueMakesAPassWait(t *testing.T) {
	t.Parallel()
	massRollout(t, func(s *scene, pods []clustertest.Pod) {
		s.pods.Store(t, pods)
		s.start(t, rareProbes, func(cfg *server.Config) { cfg.JobQueueCapacity, cfg.JobQueueConcurrency = 50, 10 })
	})
}

// massRollout looks after a thousand pods, which run brings into the world, and the gateway as well.
func massRollout(t *testing.T, run func(*scene, []clustertest.Pod)) {
	const pods = 1000
	s := newScene(t)
	engines := clustertest.StartEngines(t, pods, engine.Config{Keep: -1})
	todo := make([]clustertest.Pod, pods)
	for i, e := range engines {
		todo[i] = pod(fmt.Sprintf("p%d", i), e.IP)
	}
	begin := time.Now()
	run(s, todo)
	s.until(t, "all are registered", func() bool { return s.series(t, added) == pods && len(s.workers(t)) == pods })
	passes, seconds := s.log.count("Pass over the workers"), time.Since(begin).Seconds()
	require.LessOrEqual(t, passes, int(2*seconds)+3, "passes are gathered")
	s.passes(t, 2)
	require.Equal(t, [2]float64{pods, 0}, s.jobs(t))
	require.EqualValues(t, pods, s.series(t, discovered))
	require.Zero(t, s.series(t, `registrations_total{result="failed",source="kubernetes"}`))
	all := s.workers(t)
	for i, e := range engines {
		w := all[e.URL()]
		require.True(t, w.serves(), e.URL())
		require.Equal(t, todo[i].Name, w.Labels[discovery.LabelPodName])
		require.Equal(t, 1, e.Asked("/server_info"), "%s is registered once", e.URL())
	}
	require.Equal(t, 1, s.proxy.Lists())
}

// discovery.md, section 21: D14. Each successor is there before its predecessor goes: at no moment are fewer ready.
func TestD14ARollingReplacementNeverLacksWorkers(t *testing.T) {
	t.Parallel()
	const pods, atOnce = 100, 10
	s := started(t)
	engines := clustertest.StartEngines(t, 2*pods, engine.Config{Keep: -1})
	old, want := make([]clustertest.Pod, pods), map[string]string{}
	for i := range old {
		old[i] = pod(fmt.Sprintf("old-%d", i), engines[i].IP)
	}
	for i, p := range s.pods.RunAll(t, old) {
		want[engines[i].URL()] = p.UID
	}
	s.serving(t, want)
	ids := map[string]bool{}
	for _, w := range s.workers(t) {
		ids[w.ID] = true
	}
	s.always(t, func(all map[string]worker) string {
		ready := 0
		for _, w := range all {
			if w.serves() {
				ready++
			}
		}
		if ready < pods {
			return fmt.Sprintf("only %d workers serve", ready)
		}
		return ""
	})
	young := map[string]string{}
	for at := 0; at < pods; at += atOnce {
		s.replace(t, at, atOnce, engines[pods:], young)
	}
	s.until(t, "only successors are left", func() bool { return maps.Equal(s.owners(t), young) })
	for _, w := range s.workers(t) {
		require.False(t, ids[w.ID], "%s is of the old fleet", w.URL)
	}
	require.Equal(t, [2]float64{2 * pods, pods}, s.jobs(t))
}

// replace runs the successors of some pods, waits until they serve, and lets the old pods go.
func (s *scene) replace(t *testing.T, at, n int, engines []*clustertest.Engine, young map[string]string) {
	t.Helper()
	successors := make([]clustertest.Pod, n)
	for i := range successors {
		successors[i] = pod(fmt.Sprintf("new-%d", at+i), engines[at+i].IP)
	}
	for i, p := range s.pods.RunAll(t, successors) {
		young[engines[at+i].URL()] = p.UID
	}
	s.until(t, "the successors serve", func() bool {
		owners := s.owners(t)
		for url, uid := range young {
			if owners[url] != uid {
				return false
			}
		}
		return true
	})
	for i := range n {
		s.pods.Terminate(t, fmt.Sprintf("old-%d", at+i), time.Minute)
	}
}
