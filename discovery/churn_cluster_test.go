package discovery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D43. Changes that no worker is made of are gathered; they neither cost a pass each nor keep passes, and
// what matters among them, from being made.
func TestD43ChangesWithoutEndAreGathered(t *testing.T) {
	t.Parallel()
	s := started(t, func(cfg *server.Config) { cfg.ResyncInterval = 3600 })
	want := s.fleet(t, 3)
	gone, ge := s.run(t, "gone")
	want[ge.URL()] = gone.UID
	s.serving(t, want)
	began, passes := time.Now(), s.log.count("Pass over the workers")
	for turn := range 120 {
		s.pods.Label(t, fmt.Sprintf("fleet-%d", turn%3), map[string]any{"turn": fmt.Sprint(turn)})
		time.Sleep(50 * time.Millisecond) // 20 a second, or fewer
		switch turn {
		case 30:
			p, e := s.run(t, "new")
			want[e.URL()] = p.UID
			delete(want, ge.URL())
			s.pods.Delete(t, "gone")
		case 100:
			s.serving(t, want) // nothing has come to rest yet
		}
	}
	passes = s.log.count("Pass over the workers") - passes
	seconds := time.Since(began).Seconds()
	require.LessOrEqual(t, passes, int(seconds)+6, "in %.0f s", seconds) // one a second, and those for the pods that come and go
	require.GreaterOrEqual(t, passes, 3)
	s.serving(t, want)
	require.Equal(t, [2]float64{5, 1}, s.jobs(t))
}

// discovery.md, section 21: D48.
func TestD48TwoGatewaysKnowThePodsEachForItself(t *testing.T) {
	t.Parallel()
	s := started(t)
	two := &scene{cluster: s.cluster, pods: s.pods, proxy: s.cluster.Proxy(t), log: &lines{}, client: s.client}
	two.start(t)
	p, e := s.run(t, "p1")
	want := map[string]string{e.URL(): p.UID}
	s.serving(t, want)
	two.serving(t, want)
	require.NotEqual(t, s.workers(t)[e.URL()].ID, two.workers(t)[e.URL()].ID)

	s.proxy.Cut()
	s.until(t, "the cut is noticed", func() bool { return s.log.count(watchError) > 0 })
	s.pods.Delete(t, "p1")
	two.serving(t, map[string]string{})
	require.True(t, s.workers(t)[e.URL()].serves(), "the other one has not heard of it")
	s.proxy.Restore()
	s.serving(t, map[string]string{})
	require.Equal(t, s.jobs(t), two.jobs(t))
}
