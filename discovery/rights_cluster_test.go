package discovery_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D33.
func TestD33RightsThatAreTakenAwayCostNoWorker(t *testing.T) {
	t.Parallel()
	s := started(t, resync(1))
	want := s.fleet(t, 3)
	before := s.workers(t)
	stop := s.always(t, unchanged(before))
	s.pods.Revoke(t)
	s.proxy.Reset()
	s.until(t, "the refusal is told of, again and again", func() bool { return s.log.count("forbidden") >= 4 })
	require.LessOrEqual(t, s.log.count(watchError), 10)
	s.pods.Delete(t, "fleet-0")
	p, e := s.run(t, "new")
	s.passes(t, 2)
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
	stop()
	s.pods.Grant(t)
	maps.DeleteFunc(want, func(url, _ string) bool { return before[url].Labels[discovery.LabelPodName] == "fleet-0" })
	want[e.URL()] = p.UID
	s.serving(t, want)
	require.Equal(t, [2]float64{4, 1}, s.jobs(t))
}

// discovery.md, section 21: D34, and section 15: every request is one of the namespace. Without it a Role is not enough; the gateway
// lives, and has its workers as soon as it may see them.
func TestD34ARoleIsEnoughForANamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	e := clustertest.StartEngine(t)
	p := pod("p1", e.IP)
	p.Labels["test"] = s.pods.Name
	p = s.pods.Run(t, p)
	want := map[string]string{e.URL(): p.UID}
	s.start(t)
	s.serving(t, want)
	for _, c := range s.proxy.Calls() {
		require.Equal(t, "/api/v1/namespaces/"+s.pods.Name+"/pods", c.Path)
	}

	everywhere := &scene{cluster: s.cluster, pods: s.pods, proxy: s.cluster.Proxy(t), log: &lines{}, client: s.client}
	everywhere.start(t, func(cfg *server.Config) {
		cfg.PodNamespaces, cfg.PodSelector = nil, []string{"app=m", "test=" + s.pods.Name} // other tests have pods as well
	})
	everywhere.until(t, "the refusal is told of", func() bool { return everywhere.log.count("forbidden") >= 2 })
	require.Empty(t, everywhere.workers(t))
	status, answer := everywhere.do(t, "GET", "/health", "")
	require.Equal(t, http.StatusOK, status, answer)
	s.pods.GrantEverywhere(t)
	everywhere.serving(t, want)
	require.Equal(t, "/api/v1/pods", everywhere.proxy.Calls()[0].Path)
}

// discovery.md, section 21: D35, and DECISIONS.md, 9: without credentials a gateway serves the workers that are named otherwise, and
// refuses to start if there are none; credentials that come late are found.
func TestD35WithoutCredentialsAGatewayServesWhoIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	named, posted := clustertest.StartEngine(t), clustertest.StartEngine(t)
	late := filepath.Join(t.TempDir(), "kubeconfig")
	lacking := func(cfg *server.Config) { cfg.Kubeconfig = late }

	cfg := server.Default()
	cfg.ServiceDiscovery, cfg.PodSelector = true, []string{"app=m"}
	lacking(cfg)
	_, err := server.New(cfg, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "failed to start service discovery")

	s.start(t, lacking, func(cfg *server.Config) { cfg.WorkerURLs = []string{named.URL()} })
	s.serving(t, map[string]string{named.URL(): ""})
	status, answer := s.do(t, "GET", "/health", "")
	require.Equal(t, http.StatusOK, status, answer)
	status, answer = s.do(t, "POST", "/workers", fmt.Sprintf(`{"url":%q}`, posted.URL()))
	require.Equal(t, http.StatusAccepted, status, answer)
	s.serving(t, map[string]string{named.URL(): "", posted.URL(): ""})
	require.Equal(t, 1, s.log.count("Failed to start service discovery: "))
	require.Equal(t, 1, s.log.count("Continuing without service discovery"))

	text, err := os.ReadFile(s.pods.Kubeconfig(t, s.proxy))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(late+".new", text, 0o600))
	require.NoError(t, os.Rename(late+".new", late))
	p, e := s.run(t, "p1")
	s.serving(t, map[string]string{named.URL(): "", posted.URL(): "", e.URL(): p.UID})
	require.Equal(t, 1, s.log.count("Failed to start service discovery: "), "the attempts between are not told of")
}

// A token that is not good any more, and the file with a good one behind it.
func TestATokenThatIsRotatedIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	token := filepath.Join(t.TempDir(), "token")
	rotate := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(token+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(token+".new", token))
	}
	rotate("of yesterday")
	config := s.pods.KubeconfigOf(t, s.proxy, token)
	s.start(t, func(cfg *server.Config) { cfg.Kubeconfig = config })
	s.until(t, "it is refused", func() bool { return s.log.count("Unauthorized") >= 2 })
	rotate(s.pods.Token(t))
	want := s.fleet(t, 2)

	before := s.workers(t)
	stop := s.always(t, unchanged(before))
	s.pods.Reissue(t) // what the file has is worth nothing from here on
	direct := discovery.KubernetesSettings{Kubeconfig: s.pods.KubeconfigOf(t, nil, token), Namespaces: []string{s.pods.Name}}
	s.until(t, "the API server has forgotten that the token was good", func() bool {
		time.Sleep(100 * time.Millisecond) // each question is a new connection
		found, err := discovery.Examine(t.Context(), direct)
		require.NoError(t, err)
		return len(found.Problems) > 0 && len(found.Rights) == 0
	})
	refused := s.log.count("Unauthorized")
	s.proxy.Reset()
	s.until(t, "it is refused once more", func() bool { return s.log.count("Unauthorized") > refused })
	stop()
	rotate(s.pods.Token(t))
	p, e := s.run(t, "new")
	want[e.URL()] = p.UID
	s.serving(t, want)
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
}
