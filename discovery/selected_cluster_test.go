package discovery_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D26.
func TestD26APodThatIsRelabelledLeavesAndComesBackAsANewWorker(t *testing.T) {
	t.Parallel()
	s := started(t)
	p, e := s.run(t, "p1")
	want := map[string]string{e.URL(): p.UID}
	s.serving(t, want)
	id := s.workers(t)[e.URL()].ID
	s.pods.Label(t, "p1", map[string]any{"app": "other"})
	s.serving(t, map[string]string{})
	require.True(t, s.pods.Exists(t, "p1"))
	s.pods.Label(t, "p1", map[string]any{"app": "m"})
	s.serving(t, want)
	require.NotEqual(t, id, s.workers(t)[e.URL()].ID)
	require.Equal(t, [2]float64{2, 1}, s.jobs(t))
	require.Equal(t, 1, s.proxy.Lists())
}

// discovery.md, section 21: D44, and section 22: a pod that says it is Ready and does not run is none either.
func TestD44APodThatHasEndedIsNoWorker(t *testing.T) {
	t.Parallel()
	s := started(t)
	want := s.fleet(t, 1)
	for _, end := range []struct{ name, phase, ready string }{
		{"succeeded", "Succeeded", "False"},
		{"failed", "Failed", "False"},
		{"succeeded-though-ready", "Succeeded", "True"},
	} {
		p, e := s.run(t, end.name)
		full := map[string]string{e.URL(): p.UID}
		for url, uid := range want {
			full[url] = uid
		}
		s.serving(t, full)
		s.pods.SetStatus(t, end.name, clustertest.Status{Phase: end.phase, IP: e.IP, Ready: end.ready})
		s.serving(t, want)
	}
	require.Equal(t, [2]float64{4, 3}, s.jobs(t))
}

// discovery.md, section 21: D47: a model for each namespace, whatever the engines say; and each namespace is listed for itself.
func TestD47TheNamespaceOfAPodIsItsModel(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := s.cluster.Namespace(t)
	s.pods.GrantEverywhere(t)
	s.start(t, func(cfg *server.Config) {
		cfg.PodNamespaces, cfg.PodModel = []string{s.pods.Name, other.Name}, "NameSpace"
		cfg.ModelAliases = []server.ModelAlias{{Alias: "also", Model: other.Name}}
	})
	p1, e1 := s.run(t, "p1")
	e2 := clustertest.StartEngine(t)
	p2 := other.Run(t, pod("p2", e2.IP))
	s.serving(t, map[string]string{e1.URL(): p1.UID, e2.URL(): p2.UID})
	all := s.workers(t)
	require.Equal(t, []string{s.pods.Name, other.Name}, []string{all[e1.URL()].Model, all[e2.URL()].Model})
	for _, ask := range []struct {
		model          string
		status, e1, e2 int // the status, and what each engine has served by then
	}{
		{s.pods.Name, http.StatusOK, 1, 0},
		{other.Name, http.StatusOK, 1, 1},
		{"also", http.StatusOK, 1, 2},
		{"m1", http.StatusNotFound, 1, 2},
	} {
		status, answer := s.do(t, "POST", chatPath, `{"model":"`+ask.model+`","messages":[{"role":"user","content":"hi"}]}`)
		require.Equal(t, ask.status, status, answer)
		require.Equal(t, []int{ask.e1, ask.e2}, []int{e1.Asked(chatPath), e2.Asked(chatPath)}, ask.model)
	}
	require.Equal(t, []int{2, 2}, []int{s.proxy.Lists(), s.proxy.Watches()})
}
