package discovery_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D28.
func TestD28AnIPv6PodServes(t *testing.T) {
	t.Parallel()
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	require.NoError(t, probe.Close())
	s := started(t)
	e := clustertest.StartEngineAt(t, "::1", 0)
	p := pod("p1", "0:0:0:0:0:0:0:1")
	p.Annotations = ports(e)
	p = s.pods.Run(t, p)
	require.True(t, strings.HasPrefix(e.URL(), "http://[::1]:"))
	s.serving(t, map[string]string{e.URL(): p.UID})
	status, answer := s.do(t, "POST", chatPath, chat)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, 1, e.Asked(chatPath))
}

// discovery.md, section 21: D36.
func TestD36TwoPodsAtOneAddressAreOneWorker(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1))
	first, e := s.run(t, "first")
	s.serving(t, map[string]string{e.URL(): first.UID})
	before := s.workers(t)
	stop := s.always(t, unchanged(before))
	second := s.pods.Run(t, pod("second", e.IP))
	s.until(t, "the contest is told of", func() bool { return s.log.count("both claim worker address") == 1 })
	s.passes(t, 20)
	stop()
	require.Equal(t, 1, s.log.count("both claim worker address"))
	require.Equal(t, [2]float64{1, 0}, s.jobs(t))
	require.Equal(t, 1.0, s.series(t, discovered))
	s.pods.Delete(t, "first")
	s.serving(t, map[string]string{e.URL(): second.UID})
	require.Equal(t, [2]float64{2, 1}, s.jobs(t))
}

// discovery.md, section 21: D49.
func TestD49APodThatIsReplacedWhileTheOldOneDrainsWaitsForIt(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1), func(cfg *server.Config) { cfg.DrainSettle = 5 })
	old, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): old.UID})
	id := s.workers(t)[e.URL()].ID
	s.pods.Unready(t, "p1")
	s.until(t, "the old one drains", func() bool { return s.workers(t)[e.URL()].Status == "draining" })
	s.always(t, func(all map[string]worker) string { // list itself finds two registrations
		if w := all[e.URL()]; w.ID == id && (w.Status != "draining" || w.uid() != old.UID) {
			return "the old registration does not only drain"
		}
		return ""
	})
	s.pods.Delete(t, "p1")
	young := s.pods.Run(t, pod("p1", e.IP))
	s.until(t, "a pass skips the address", func() bool { return s.log.count("in_flight=["+e.Address()+"]") > 0 })
	s.serving(t, map[string]string{e.URL(): young.UID})
	require.NotEqual(t, id, s.workers(t)[e.URL()].ID)
	require.Equal(t, [2]float64{2, 1}, s.jobs(t))
}

// Case C16 (same address, new pod), but for its first way, which no API server takes: a pod never changes its uid.
func TestC16APodThatReplacesAnotherServesItsOwnModel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		before, restore func(s *scene) // the replacement
	}{
		{"deleted and added back to back", func(*scene) {}, func(*scene) {}},
		{"while the watch is down", func(s *scene) { s.proxy.Cut() }, func(s *scene) { s.proxy.Restore() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := started(t, func(cfg *server.Config) {
				cfg.CBFailureThreshold, cfg.DisableRetries, cfg.StartupTimeout, cfg.HealthCheckInterval = 1, true, 1, 3600
			})
			old, e := s.run(t, "p1")
			s.serving(t, map[string]string{e.URL(): old.UID})
			e.SetFaults(engine.Fault{Status: http.StatusInternalServerError})
			s.do(t, "POST", chatPath, chat)
			require.Equal(t, 1.0, s.numbers(t)[`smg_worker_cb_state{worker="`+e.URL()+`"}`], "its breaker is open")

			tt.before(s)
			e.Down()
			s.pods.Delete(t, "p1")
			young := s.pods.Run(t, pod("p1", e.IP))
			tt.restore(s)
			s.until(t, "a registration that has failed is tried again", func() bool { return s.series(t, added) >= 3 })
			clustertest.StartEngineAt(t, e.IP, clustertest.Port, engine.Config{Models: []string{"m2"}})
			s.serving(t, map[string]string{e.URL(): young.UID})
			require.Equal(t, "m2", s.workers(t)[e.URL()].Model)
			require.Zero(t, s.numbers(t)[`smg_worker_cb_state{worker="`+e.URL()+`"}`])
			status, answer := s.do(t, "POST", chatPath, chat)
			require.Equal(t, http.StatusNotFound, status, answer)
			status, answer = s.do(t, "POST", chatPath, strings.Replace(chat, "m1", "m2", 1))
			require.Equal(t, http.StatusOK, status, answer)
		})
	}
}
