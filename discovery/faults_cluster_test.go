package discovery_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// An API server that is not there at the start keeps nobody from serving.
func TestAnAPIServerThatIsDownAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	named := clustertest.StartEngine(t)
	s.proxy.Cut()
	s.start(t, func(cfg *server.Config) { cfg.WorkerURLs = []string{named.URL()} })
	s.serving(t, map[string]string{named.URL(): ""})
	s.until(t, "it is tried again", func() bool { return s.log.count(watchError) >= 2 })
	for _, path := range []string{"/health", "/liveness", "/readiness"} {
		status, answer := s.do(t, "GET", path, "")
		require.Equal(t, http.StatusOK, status, answer)
	}
	status, answer := s.do(t, "POST", chatPath, chat)
	require.Equal(t, http.StatusOK, status, answer)
	s.proxy.Restore()
	p, e := s.run(t, "p1")
	s.serving(t, map[string]string{named.URL(): "", e.URL(): p.UID})
}

// An API server that is slow, and one that falls silent for a while, cost time and nothing else.
func TestASlowAPIServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p0, e0 := s.run(t, "p0")
	quick := s.proxy.URL
	s.proxy.URL = "https://" + slow(t, strings.TrimPrefix(quick, "https://"), 300*time.Millisecond)
	s.start(t)
	want := map[string]string{e0.URL(): p0.UID}
	s.serving(t, want)
	before := s.workers(t)
	stop := s.always(t, unchanged(before))
	s.proxy.Stall()
	p1, e1 := s.run(t, "p1")
	s.passes(t, 2)
	stop()
	s.proxy.Restore()
	want[e1.URL()] = p1.UID
	s.serving(t, want)
	require.Equal(t, []int{1, 1}, []int{s.proxy.Lists(), s.proxy.Watches()})
	require.Zero(t, s.log.count(watchError))
}

// slow passes bytes on to an address, each some time after it has come, and returns its own address.
func slow(t *testing.T, to string, delay time.Duration) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var passing sync.WaitGroup
	pass := func(from, to net.Conn) {
		defer to.Close()
		for b := make([]byte, 64<<10); ; {
			n, err := from.Read(b)
			time.Sleep(delay)
			if _, failed := to.Write(b[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	passing.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			passing.Go(func() { pass(client, server) })
			passing.Go(func() { pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		passing.Wait() // the gateway has closed its connections
	})
	return ln.Addr().String()
}

// A watch that is cut every second. The pauses grow, the lines of the log stay few, and nobody is lost.
func TestAWatchThatIsCutEverySecondLosesNobody(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 3)
	before := s.workers(t)
	s.always(t, func(all map[string]worker) string {
		for url := range before {
			if all[url].ID != before[url].ID || !all[url].serves() {
				return "a worker that is Ready was touched"
			}
		}
		return ""
	})
	for turn := range 10 {
		s.proxy.Reset()
		if turn%3 == 0 {
			p, e := s.run(t, fmt.Sprintf("new-%d", turn))
			want[e.URL()] = p.UID
		}
		time.Sleep(time.Second) // the fault itself
	}
	s.serving(t, want)
	require.Equal(t, [2]float64{7, 0}, s.jobs(t))
	require.Equal(t, 1, s.proxy.Lists())
	require.LessOrEqual(t, s.log.count(watchError), 10)
}

// DECISIONS.md, 52: a list that lacks more than half of the workers, as that of a server that has lost its data may, is believed when
// a second one agrees 30 s later. Until then they serve; one that is known to be gone goes at once.
func TestAListThatLacksMostWorkersNeedsASecondOne(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, clustertest.Start(t, "--watch-cache=false"))
	s.start(t)
	full := s.fleet(t, 4)
	before := s.workers(t)
	left := map[string]string{}
	for url, uid := range full {
		if before[url].Labels["smg.ai/pod-name"] == "fleet-0" {
			left[url] = uid
		}
	}
	stop := s.always(t, unchanged(before))
	s.proxy.Cut()
	s.until(t, "the cut is noticed", func() bool { return s.log.count(watchError) > 0 })
	for i := 1; i < 4; i++ {
		s.pods.Delete(t, fmt.Sprintf("fleet-%d", i))
	}
	s.pods.Create(t, pod("later", ""))
	s.cluster.Compact(t)
	s.proxy.Restore()
	s.until(t, "the list is doubted", func() bool { return s.log.count("K8s list lacks 3 worker(s), more than half") == 1 })
	s.passes(t, 3)
	stop()
	require.Equal(t, [2]float64{4, 0}, s.jobs(t))

	p, e := s.run(t, "new") // meanwhile life goes on
	full[e.URL()], left[e.URL()] = p.UID, p.UID
	s.serving(t, full)
	s.serving(t, left)
	require.Equal(t, 3, s.proxy.Lists())
	require.Equal(t, 1, s.log.count("K8s list lacks"))
	require.Equal(t, [2]float64{5, 3}, s.jobs(t))
}
