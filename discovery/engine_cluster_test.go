package discovery_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D21.
func TestD21AnEngineThatIsDownIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1), func(cfg *server.Config) { cfg.StartupTimeout = 2 })
	e := clustertest.StartEngine(t)
	e.Down()
	stop := s.always(t, onlyAt(nil))
	p := s.pods.Run(t, pod("p1", e.IP))
	s.until(t, "the registration is submitted again", func() bool { return s.series(t, added) >= 2 })
	stop()
	e.Up(t)
	s.serving(t, map[string]string{e.URL(): p.UID})
}

// discovery.md, section 21: D22.
func TestD22AnEngineThatHangsIsSubmittedOnce(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1))
	e := clustertest.StartEngine(t)
	e.SetFaults(engine.Fault{Path: "*", HangHeadMillis: -1})
	s.always(t, onlyAt(nil))
	s.pods.Run(t, pod("p1", e.IP))
	s.until(t, "the registration is submitted", func() bool { return s.series(t, added) > 0 })
	s.passes(t, 6)
	require.Equal(t, [2]float64{1, 0}, s.jobs(t))
	require.Equal(t, 1.0, s.series(t, discovered))
}

// discovery.md, section 21: D23.
func TestD23AWorkerWhosePodIsGoneWhenItIsRegisteredGoesToo(t *testing.T) {
	t.Parallel()
	s := started(t)
	e := clustertest.StartEngine(t)
	e.Down()
	p := s.pods.Run(t, pod("p1", e.IP))
	s.until(t, "the registration is submitted", func() bool { return s.series(t, added) > 0 })
	s.pods.Delete(t, "p1")
	s.until(t, "the pod is gone for discovery too", func() bool { return s.series(t, discovered) == 0 })
	s.always(t, onlyAt(map[string]string{e.URL(): p.UID}))
	e.Up(t)
	s.until(t, "it is removed", func() bool { return s.series(t, removed) == 1 && len(s.workers(t)) == 0 })
	s.passes(t, 2)
	require.Equal(t, [2]float64{1, 1}, s.jobs(t))
	require.Zero(t, e.Asked(chatPath))
}

// discovery.md, section 21: D24.
func TestD24WorkersThatAreAddedByHandStay(t *testing.T) {
	t.Parallel()
	named, posted := clustertest.StartEngine(t), clustertest.StartEngine(t)
	s := started(t, func(cfg *server.Config) { cfg.WorkerURLs = []string{named.URL()} })
	status, answer := s.do(t, "POST", "/workers", fmt.Sprintf(`{"url":%q}`, posted.URL()))
	require.Equal(t, http.StatusAccepted, status, answer)
	manual := map[string]string{named.URL(): "", posted.URL(): ""}
	s.serving(t, manual)
	before := s.workers(t)
	s.always(t, func(all map[string]worker) string {
		for url, w := range before {
			if now := all[url]; now.ID != w.ID || !now.serves() {
				return "a worker that was added by hand was touched"
			}
		}
		return ""
	})
	want := map[string]string{named.URL(): "", posted.URL(): ""}
	for _, name := range []string{"p1", "p2"} {
		p, e := s.run(t, name)
		want[e.URL()] = p.UID
	}
	s.serving(t, want)
	s.pods.Delete(t, "p1")
	s.pods.Delete(t, "p2")
	s.serving(t, manual)
	require.Equal(t, [2]float64{2, 2}, s.jobs(t))
}

// discovery.md, section 21: D25.
func TestD25AWorkerAddedByHandKeepsTheAddressOfAPod(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1))
	e := clustertest.StartEngine(t)
	status, answer := s.do(t, "POST", "/workers", fmt.Sprintf(`{"url":%q}`, e.URL()))
	require.Equal(t, http.StatusAccepted, status, answer)
	s.serving(t, map[string]string{e.URL(): ""})
	id := s.workers(t)[e.URL()].ID
	p := s.pods.Run(t, pod("p1", e.IP))
	s.until(t, "discovery stands back", func() bool { return s.log.count("that was added by hand") == 1 })
	s.passes(t, 3)
	s.serving(t, map[string]string{e.URL(): ""})
	require.Equal(t, id, s.workers(t)[e.URL()].ID)
	require.Equal(t, 1, s.log.count("that was added by hand"))
	require.Equal(t, [2]float64{}, s.jobs(t))
	status, answer = s.do(t, "DELETE", "/workers/"+id, "")
	require.Equal(t, http.StatusAccepted, status, answer)
	s.serving(t, map[string]string{e.URL(): p.UID})
}
