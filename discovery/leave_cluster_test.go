package discovery_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D06.
func TestD06APodThatTerminatesDrains(t *testing.T) {
	t.Parallel()
	s := started(t)
	e1 := clustertest.StartEngine(t, engine.Config{ITL: 300 * time.Millisecond, Reply: 24, Keep: 100})
	p1 := s.pods.Run(t, pod("p1", e1.IP))
	s.serving(t, map[string]string{e1.URL(): p1.UID})
	stream := s.stream(t)
	p2, e2 := s.run(t, "p2")
	s.serving(t, map[string]string{e1.URL(): p1.UID, e2.URL(): p2.UID})

	s.pods.Terminate(t, "p1", time.Minute)
	s.until(t, "the worker gets no new request", func() bool { return !s.workers(t)[e1.URL()].serves() })
	s.until(t, "the worker is gone", func() bool {
		status, _ := s.do(t, "POST", chatPath, chat)
		require.Equal(t, http.StatusOK, status)
		return len(s.workers(t)) == 1
	})
	require.Equal(t, 1, e1.Asked(chatPath), "the stream alone")
	require.True(t, s.pods.Exists(t, "p1"))
	require.Equal(t, 1, s.log.count("Draining 1 worker(s) for 2s before removal"))
	var last string
	for stream.Scan() {
		if stream.Text() != "" {
			last = stream.Text()
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "data: [DONE]", last)
}

// stream begins a streamed request and reads its first event.
func (s *scene) stream(t *testing.T) *bufio.Scanner {
	t.Helper()
	resp, err := s.client.Post(s.URL+chatPath, "application/json", strings.NewReader(chats))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	stream := bufio.NewScanner(resp.Body)
	require.True(t, stream.Scan())
	return stream
}

// discovery.md, section 21: D15.
func TestD15APodThatIsReplacedAtItsAddressIsANewWorker(t *testing.T) {
	t.Parallel()
	s := started(t)
	old, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): old.UID})
	id := s.workers(t)[e.URL()].ID
	s.always(t, func(all map[string]worker) string { // list itself finds two registrations
		if w := all[e.URL()]; w.ID == id && w.uid() != old.UID {
			return "the old registration was given to the new pod"
		}
		return ""
	})
	s.pods.Delete(t, "p1")
	young := s.pods.Run(t, pod("p1", e.IP))
	s.serving(t, map[string]string{e.URL(): young.UID})
	require.Equal(t, 1, s.log.count("from=ready to=draining"))
	require.NotEqual(t, id, s.workers(t)[e.URL()].ID)
	require.Zero(t, s.workers(t)[e.URL()].Load)
	require.Equal(t, [2]float64{2, 1}, s.jobs(t))
}

// discovery.md, section 21: D16.
func TestD16APodThatReplacesAFailedOneBeginsAfresh(t *testing.T) {
	t.Parallel()
	s := started(t, func(cfg *server.Config) {
		recovers := false
		cfg.RemoveUnhealthyWorkers, cfg.HealthFailureThreshold, cfg.CBFailureThreshold = &recovers, 1, 1
	})
	old, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): old.UID})
	e.SetFaults(engine.Fault{Status: 500})
	for range 2 {
		s.do(t, "POST", chatPath, chat)
	}
	e.SetFaults(engine.Fault{Path: "*", Status: 500})
	s.until(t, "the worker has failed", func() bool { return s.workers(t)[e.URL()].Status == "failed" })
	s.pods.Delete(t, "p1")
	young := s.pods.Run(t, pod("p1", e.IP))
	e.SetFaults()
	s.serving(t, map[string]string{e.URL(): young.UID})
	status, answer := s.do(t, "POST", chatPath, chat)
	require.Equal(t, http.StatusOK, status, answer)
}

// discovery.md, section 21: D17, and DECISIONS.md, 51: it is cordoned meanwhile.
func TestD17AShortFlapDrainsNobody(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 2)
	for range 10 {
		p, e := s.run(t, "flaps")
		want[e.URL()] = p.UID
		s.serving(t, want)
		before, jobs, begin := s.workers(t), s.jobs(t), time.Now()
		s.pods.Unready(t, "flaps")
		time.Sleep(300 * time.Millisecond) // how long it is not ready
		s.pods.Ready(t, "flaps", e.IP)
		if time.Since(begin) > 700*time.Millisecond { // not a short one: the machine is busy
			s.pods.Delete(t, "flaps")
			delete(want, e.URL())
			s.serving(t, want)
			continue
		}
		s.passes(t, 2)
		s.serving(t, want)
		require.Equal(t, jobs, s.jobs(t))
		for url, w := range s.workers(t) {
			require.Equal(t, before[url].ID, w.ID)
		}
		return
	}
	t.Fatal("the API server never was quick enough for a flap of 0.3 s")
}

// discovery.md, section 21: D18, and section 9: readmission comes when the removal has ended.
func TestD18ReadinessThatReturnsDoesNotEndADrain(t *testing.T) {
	t.Parallel()
	s := started(t, func(cfg *server.Config) { cfg.DrainSettle, cfg.ResyncInterval = 4, 60 })
	p, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): p.UID})
	id := s.workers(t)[e.URL()].ID
	s.pods.Unready(t, "p1")
	s.until(t, "the worker drains", func() bool { return s.log.count("from=ready to=draining") == 1 })
	s.always(t, func(all map[string]worker) string {
		if w := all[e.URL()]; w.ID == id && w.Status != "draining" {
			return "the drain was taken back"
		}
		return ""
	})
	s.pods.Ready(t, "p1", e.IP)
	s.until(t, "the worker is gone", func() bool { return s.workers(t)[e.URL()].ID != id })
	s.serving(t, map[string]string{e.URL(): p.UID})
	require.Equal(t, [2]float64{2, 1}, s.jobs(t))
}

// discovery.md, section 21: D19.
func TestD19APodThatIsUnreadyForLongComesBackWithAllPorts(t *testing.T) {
	t.Parallel()
	s := started(t)
	a, b := pair(t)
	p := pod("p1", a.IP)
	p.Annotations = ports(a, b)
	p = s.pods.Run(t, p)
	want := map[string]string{a.URL(): p.UID, b.URL(): p.UID}
	s.serving(t, want)
	s.pods.Unready(t, "p1")
	s.serving(t, map[string]string{})
	s.passes(t, 2)
	require.Zero(t, s.series(t, discovered))
	s.pods.Ready(t, "p1", a.IP)
	s.serving(t, want)
	require.Equal(t, [2]float64{4, 2}, s.jobs(t))
}
