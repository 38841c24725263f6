package discovery_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D38.
func TestD38AWorkerThatHasFailedIsRegisteredAnew(t *testing.T) {
	t.Parallel()
	s := started(t)
	p, e := s.run(t, "p1")
	want := map[string]string{e.URL(): p.UID}
	s.serving(t, want)
	id := s.workers(t)[e.URL()].ID
	before := e.Asked("/health")
	e.SetFaults(engine.Fault{Path: "/health", Status: http.StatusServiceUnavailable})
	s.until(t, "the worker is not ready", func() bool { return s.workers(t)[e.URL()].Status == "not_ready" })
	stop := s.always(t, func(all map[string]worker) string {
		probes := e.Asked("/health") - before
		if w, there := all[e.URL()]; there && w.ID != id {
			return "it came back, and its engine has not"
		} else if (!there || w.Status == "failed") && probes < 12 {
			return fmt.Sprintf("it has failed after %d probes", probes)
		}
		return ""
	})
	s.until(t, "the worker is removed", func() bool { return len(s.workers(t)) == 0 })
	s.until(t, "its registration waits", func() bool { return s.series(t, added) == 2 })
	s.passes(t, 2)
	require.Equal(t, [2]float64{2, 0}, s.jobs(t), "discovery has removed nobody")
	stop()
	e.SetFaults()
	s.serving(t, want)
	require.NotEqual(t, id, s.workers(t)[e.URL()].ID)
}

// discovery.md, section 21: D39.
func TestD39WithoutRecoveryAWorkerThatHasFailedStays(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1), func(cfg *server.Config) {
		recovers := false
		cfg.RemoveUnhealthyWorkers, cfg.HealthFailureThreshold = &recovers, 1
	})
	p, e := s.run(t, "p1")
	want := map[string]string{e.URL(): p.UID}
	s.serving(t, want)
	id := s.workers(t)[e.URL()].ID
	s.always(t, func(all map[string]worker) string {
		if all[e.URL()].ID != id {
			return "another worker, or none"
		}
		return ""
	})
	e.Down()
	s.until(t, "the worker has failed", func() bool { return s.workers(t)[e.URL()].Status == "failed" })
	s.passes(t, 3)
	e.Up(t)
	s.serving(t, want)
	require.Equal(t, [2]float64{1, 0}, s.jobs(t))
}
