package discovery_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D01.
func TestD01APodThatBecomesReadyIsAWorker(t *testing.T) {
	t.Parallel()
	s := started(t)
	s.until(t, "the watch stands", func() bool { return s.proxy.Watching() == 1 })
	p, e := s.run(t, "p1")
	s.serving(t, map[string]string{e.URL(): p.UID})
	require.Equal(t, "p1", s.workers(t)[e.URL()].Labels[discovery.LabelPodName])
	require.Equal(t, 1.0, s.series(t, discovered))
	status, _ := s.do(t, "POST", chatPath, chat)
	require.Equal(t, 200, status)
	require.Equal(t, []int{1, 1}, []int{s.proxy.Lists(), s.proxy.Watches()})
}

// discovery.md, section 21: D02.
func TestD02OnlyReadyPodsOfTheSelectorAndNamespaceAreWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	want := map[string]string{}
	for _, name := range []string{"p1", "p2", "p3"} {
		p, e := s.run(t, name)
		want[e.URL()] = p.UID
	}
	engines := clustertest.StartEngines(t, 3)
	s.pods.Run(t, pod("unready", engines[0].IP))
	s.pods.Unready(t, "unready")
	s.pods.Run(t, clustertest.Pod{Name: "other", IP: engines[1].IP, Labels: map[string]string{"app": "other"}})
	s.cluster.Namespace(t).Run(t, pod("elsewhere", engines[2].IP))

	s.start(t, resync(1))
	s.always(t, onlyAt(want))
	s.serving(t, want)
	s.passes(t, 3)
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
	for _, e := range engines {
		require.Zero(t, e.State().Accepted, "nobody has asked %s", e.URL())
	}
}

// discovery.md, section 21: D03.
func TestD03APodIsAbsentUntilItIsReady(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1))
	e := clustertest.StartEngine(t)
	p := s.pods.Create(t, pod("p1", ""))
	stop := s.always(t, onlyAt(nil))
	s.pods.SetStatus(t, "p1", clustertest.Status{Phase: "Pending", IP: e.IP})
	s.pods.SetStatus(t, "p1", clustertest.Status{Phase: "Running", IP: e.IP, Ready: "False"})
	s.passes(t, 3)
	require.Zero(t, s.series(t, discovered))
	require.Equal(t, [2]float64{}, s.jobs(t))
	stop()
	s.pods.Ready(t, "p1", e.IP)
	s.serving(t, map[string]string{e.URL(): p.UID})
}

// discovery.md, section 21: D04.
func TestD04EveryPortOfAPodIsAWorker(t *testing.T) {
	t.Parallel()
	s := started(t)
	a, b := pair(t)
	p := pod("p1", a.IP)
	p.Annotations = ports(b, a, b)
	p = s.pods.Run(t, p)
	s.serving(t, map[string]string{a.URL(): p.UID, b.URL(): p.UID})
	require.Equal(t, 2.0, s.series(t, discovered))
	s.pods.Delete(t, "p1")
	s.serving(t, map[string]string{})
	require.Equal(t, [2]float64{2, 2}, s.jobs(t))
}

// discovery.md, section 21: D05.
func TestD05PortsOfALivePodComeAndGo(t *testing.T) {
	t.Parallel()
	s := started(t)
	a, b := pair(t)
	c := clustertest.StartEngineAt(t, a.IP, 0)
	p := pod("p1", a.IP)
	p.Annotations = ports(a, b)
	p = s.pods.Run(t, p)
	s.serving(t, map[string]string{a.URL(): p.UID, b.URL(): p.UID})
	id := s.workers(t)[a.URL()].ID
	s.always(t, func(all map[string]worker) string {
		if w := all[a.URL()]; w.ID != id || !w.serves() {
			return "the worker that stays was touched"
		}
		return ""
	})
	annotate := func(engines ...*clustertest.Engine) {
		value := map[string]any{}
		for k, v := range ports(engines...) {
			value[k] = v
		}
		s.pods.Annotate(t, "p1", value)
	}
	annotate(a)
	s.serving(t, map[string]string{a.URL(): p.UID})
	annotate(a, c)
	s.serving(t, map[string]string{a.URL(): p.UID, c.URL(): p.UID})
}

// resync is the time between passes when nothing changes.
func resync(seconds server.Seconds) func(*server.Config) {
	return func(cfg *server.Config) { cfg.ResyncInterval = seconds }
}

// onlyAt finds workers at other addresses, or of other pods.
func onlyAt(want map[string]string) func(map[string]worker) string {
	return func(all map[string]worker) string {
		for url, w := range all {
			if uid, wanted := want[url]; !wanted || w.uid() != uid {
				return "there is a worker that nobody wants"
			}
		}
		return ""
	}
}

// pair is two engines at one address.
func pair(t *testing.T) (a, b *clustertest.Engine) {
	t.Helper()
	a = clustertest.StartEngine(t)
	return a, clustertest.StartEngineAt(t, a.IP, 0)
}

// ports is the annotation for the ports of engines.
func ports(engines ...*clustertest.Engine) map[string]string {
	value := ""
	for i, e := range engines {
		if i > 0 {
			value += ", "
		}
		value += fmt.Sprint(e.Port)
	}
	return map[string]string{discovery.DefaultWorkerPortsAnnotation: value}
}
