package discovery_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
)

// load asks 20 times a second until stop is called, or the test ends. Every answer is 200.
func (s *scene) load(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() {
		pause := time.NewTicker(50 * time.Millisecond)
		defer pause.Stop()
		for {
			resp, err := s.client.Post(s.URL+chatPath, "application/json", strings.NewReader(chat))
			if !assert.NoError(t, err) || !assert.Equal(t, http.StatusOK, resp.StatusCode) {
				return
			}
			_ = resp.Body.Close()
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() { cancel(); asking.Wait() }
	t.Cleanup(stop)
	return stop
}

// leaves waits until a worker gets no new request, and is gone: in between it got none, whatever its engine says of its health. Its
// streams, if there are some, are in flight as long as they take.
func (s *scene) leaves(t *testing.T, e *clustertest.Engine, streams int) {
	t.Helper()
	s.until(t, "the worker is no candidate", func() bool { return !s.workers(t)[e.URL()].serves() })
	s.until(t, "what it had is over", func() bool { return s.workers(t)[e.URL()].Load <= streams })
	had := e.Asked(chatPath)
	s.until(t, "the worker is gone", func() bool { _, there := s.workers(t)[e.URL()]; return !there })
	require.Equal(t, had, e.Asked(chatPath))
}

// Case C15 (unready or relabelled pod), and DECISIONS.md, 51: no new request from the moment at which it is known.
func TestC15AnUnreadyOrRelabelledPodGetsNoRequest(t *testing.T) {
	t.Parallel()
	s := started(t)
	a := clustertest.StartEngine(t, engine.Config{ITL: 200 * time.Millisecond, Reply: 40})
	pa := s.pods.Run(t, pod("a", a.IP))
	s.serving(t, map[string]string{a.URL(): pa.UID})
	stream := s.stream(t)
	pb, b := s.run(t, "b")
	both, alone := map[string]string{a.URL(): pa.UID, b.URL(): pb.UID}, map[string]string{b.URL(): pb.UID}
	s.serving(t, both)
	stop := s.load(t)

	s.pods.Unready(t, "a")
	s.leaves(t, a, 1)
	var last string
	for stream.Scan() {
		if stream.Text() != "" {
			last = stream.Text()
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "data: [DONE]", last, "the stream is whole")

	served := func() { // again
		s.serving(t, both)
		had := a.Asked(chatPath)
		s.until(t, "it gets requests", func() bool { return a.Asked(chatPath) > had })
	}
	s.pods.Ready(t, "a", a.IP)
	served()
	s.pods.Label(t, "a", map[string]any{"app": "other"})
	s.leaves(t, a, 0)
	s.pods.Label(t, "a", map[string]any{"app": "m"})
	served()
	s.pods.Terminate(t, "a", time.Minute)
	s.leaves(t, a, 0)
	s.serving(t, alone)
	stop()
	require.Equal(t, [2]float64{4, 3}, s.jobs(t))
}

// DECISIONS.md, 51: a pod that is Ready again within the time of a pass keeps its worker, and the worker all that it had. Here that
// time is an hour.
func TestACordonThatIsLiftedLeavesTheWorkerAsItWas(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p, e := s.run(t, "p1")
	other, oe := s.run(t, "p2")
	settings := often()
	settings.Gather = time.Hour
	registry := s.bare(t, discovery.Selectors{Worker: discovery.Selector{"app": "m"}}, settings)
	s.serving(t, map[string]string{e.URL(): p.UID, oe.URL(): other.UID})

	w := registry.ByURL(e.URL())
	w.Begin()
	w.Breaker().Failure()
	for range 3 {
		s.pods.Unready(t, "p1")
		s.until(t, "it is cordoned", func() bool { return s.workers(t)[e.URL()].Cordoned })
		require.Equal(t, "ready", s.workers(t)[e.URL()].Status)
		require.False(t, w.Candidate())
		s.passes(t, 3)
		require.True(t, s.workers(t)[e.URL()].Cordoned, "a pass before its time lets it be")
		s.pods.Ready(t, "p1", e.IP)
		s.until(t, "the cordon is lifted", func() bool { return s.workers(t)[e.URL()].serves() })
	}
	require.Same(t, w, registry.ByURL(e.URL()))
	require.Equal(t, []int64{1, 1}, []int64{w.InFlight(), w.Breaker().ConsecutiveFailures()})
	require.Zero(t, s.log.count("Removing worker"))
	require.Equal(t, 2, s.log.count("Registering worker"))
	w.End()
}

// DECISIONS.md, 51: whoever asks why a worker gets nothing is told.
func TestACordonIsExplained(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 2)
	for range 10 { // until this is quicker than the pass that follows
		p, e := s.run(t, "p1")
		want[e.URL()] = p.UID
		s.serving(t, want)
		s.pods.Unready(t, "p1")
		s.until(t, "it is no candidate", func() bool { return !s.workers(t)[e.URL()].serves() })
		status, answer := s.do(t, "POST", "/explain", chat)
		require.Equal(t, http.StatusOK, status, answer)
		if strings.Contains(answer, "cordoned") {
			require.Contains(t, answer, e.URL())
			return
		}
		s.pods.Delete(t, "p1")
		delete(want, e.URL())
		s.serving(t, want)
	}
	t.Fatal("the explanation never says that it is cordoned")
}
