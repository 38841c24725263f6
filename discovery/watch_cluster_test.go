package discovery_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

const watchError = "K8s worker watcher error (auto-retrying with backoff)"

// discovery.md, section 21: D07.
func TestD07AWatchThatIsCutIsResumedWithoutAList(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 3)
	before := s.workers(t)
	s.always(t, unchanged(before))
	s.proxy.Cut()
	s.until(t, "the cut is noticed", func() bool { return s.log.count(watchError) > 0 })
	s.proxy.Restore()
	s.until(t, "the watch stands again", func() bool { return s.proxy.Watching() == 2 })
	s.passes(t, 2)
	s.serving(t, want)
	require.Equal(t, 1, s.proxy.Lists())
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
}

// discovery.md, section 21: D08.
func TestD08ChangesDuringACutAreSeenWithoutAList(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 3)
	gone := clustertest.StartEngine(t)
	p := s.pods.Run(t, pod("gone", gone.IP))
	want[gone.URL()] = p.UID
	s.serving(t, want)
	s.proxy.Cut()
	s.until(t, "the cut is noticed", func() bool { return s.log.count(watchError) > 0 })
	s.pods.Delete(t, "gone")
	p2, e2 := s.run(t, "new")
	s.proxy.Restore()
	delete(want, gone.URL())
	want[e2.URL()] = p2.UID
	s.serving(t, want)
	require.Equal(t, 1, s.proxy.Lists())
	require.Equal(t, [2]float64{5, 1}, s.jobs(t))
}

// discovery.md, section 21: D09.
func TestD09AVersionThatIsForgottenIsListedAgain(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, clustertest.Start(t, "--watch-cache=false"))
	s.start(t)
	want := s.fleet(t, 3)
	before := s.workers(t)
	gone := clustertest.StartEngine(t)
	p := s.pods.Run(t, pod("gone", gone.IP))
	want[gone.URL()] = p.UID
	s.serving(t, want)
	s.always(t, func(all map[string]worker) string {
		rest := map[string]worker{}
		for url, w := range all {
			if url != gone.URL() {
				rest[url] = w
			}
		}
		return unchanged(before)(rest)
	})
	s.proxy.Cut()
	s.until(t, "the cut is noticed", func() bool { return s.log.count(watchError) > 0 })
	s.pods.Delete(t, "gone")
	s.pods.Create(t, pod("later", ""))
	s.cluster.Compact(t)
	s.proxy.Restore()
	delete(want, gone.URL())
	s.serving(t, want)
	require.Equal(t, 2, s.proxy.Lists())
}

// discovery.md, section 21: D10.
func TestD10WorkersOutliveTheAPIServer(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, clustertest.Start(t))
	s.start(t)
	want := s.fleet(t, 2)
	s.always(t, func(all map[string]worker) string {
		for url := range want {
			if !all[url].serves() {
				return "a worker does not serve"
			}
		}
		return ""
	})
	s.cluster.Stop()
	s.until(t, "it is tried again, and again", func() bool { return s.log.count(watchError) >= 4 })
	require.LessOrEqual(t, s.log.count(watchError), 10)
	status, _ := s.do(t, "POST", chatPath, chat)
	require.Equal(t, 200, status)
	s.cluster.Restart(t)
	p, e := s.run(t, "new")
	full := map[string]string{e.URL(): p.UID}
	for url, uid := range want {
		full[url] = uid
	}
	s.serving(t, full)
}

// discovery.md, section 21: D11.
func TestD11AnEngineThatDiesWithTheAPIServerDownIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, clustertest.Start(t))
	s.start(t, func(cfg *server.Config) { cfg.HealthFailureThreshold = 1 })
	p, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): p.UID})
	id := s.workers(t)[e.URL()].ID
	s.cluster.Stop()
	e.Down()
	s.until(t, "the worker is not ready", func() bool { return s.workers(t)[e.URL()].Status == "not_ready" })
	s.until(t, "the worker is removed", func() bool { return len(s.workers(t)) == 0 })
	s.until(t, "it is registered again, from what is known of the pod", func() bool { return s.series(t, added) >= 2 })
	require.Empty(t, s.workers(t), "registration waits for the engine")
	e.Up(t)
	s.serving(t, map[string]string{e.URL(): p.UID})
	require.NotEqual(t, id, s.workers(t)[e.URL()].ID)
	require.Equal(t, 1, s.proxy.Lists())
}

// discovery.md, section 21: D20.
func TestD20AWorkerThatAnAdministratorRemovesComesBack(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 2)
	s.proxy.Stall()
	var id, url string
	for at, w := range s.workers(t) {
		id, url = w.ID, at
	}
	status, answer := s.do(t, "DELETE", "/workers/"+id, "")
	require.Equal(t, 202, status, answer)
	s.until(t, "the worker is removed", func() bool { return s.workers(t)[url].ID != id })
	s.serving(t, want)
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
	require.Equal(t, []int{1, 1}, []int{s.proxy.Lists(), s.proxy.Watches()})
}

// fleet runs so many pods and waits until they are workers.
func (s *scene) fleet(t *testing.T, n int) map[string]string {
	t.Helper()
	want := map[string]string{}
	for i := range n {
		p, e := s.run(t, fmt.Sprintf("fleet-%d", i))
		want[e.URL()] = p.UID
	}
	s.serving(t, want)
	return want
}

// unchanged finds workers that are others than before, or do not serve.
func unchanged(before map[string]worker) func(map[string]worker) string {
	return func(all map[string]worker) string {
		if len(all) != len(before) {
			return "there are more workers, or fewer"
		}
		for url, w := range all {
			if w.ID != before[url].ID || !w.serves() {
				return "a worker was touched"
			}
		}
		return ""
	}
}
