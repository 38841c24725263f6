package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// nowhere takes everything from the environment that could lead to an API server.
func nowhere(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
}

// kubeconfig is a file with the credentials for an API server.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
		"clusters":[{"name":"k","cluster":{"server":"` + url + `"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// ofPods is a configuration that makes workers of the pods of an API server.
func ofPods(config string) func(*Config) {
	return func(c *Config) {
		c.ServiceDiscovery, c.PodSelector, c.Kubeconfig = true, []string{"app=engine"}, config
	}
}

// onePod is an API server with one Ready pod, an engine on loopback, about which nothing ever changes. It counts what it is asked.
func onePod(t *testing.T, e *engine.Running) (config string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/api/v1/namespaces/prod/pods" || r.URL.Query().Get("labelSelector") != "app=engine":
			http.Error(w, "pods of another scope are none of its business: "+r.URL.String(), http.StatusForbidden)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"engine-0","namespace":"prod",
				"uid":"u1","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"engine"},"annotations":{"acme.com/ports":%q}},
				"status":{"phase":"Running","podIP":"127.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}]}`, port)
		}
	}))
	t.Cleanup(s.Close)
	return kubeconfig(t, s.URL), asked
}

// discovery.md sections 1, 6 and 11: a pod is a worker of the gateway, with its name and the key that workers get.
func TestAPodIsAWorker(t *testing.T) {
	e := engine.Start(t, engine.Config{APIKey: "secret"})
	config, _ := onePod(t, e)
	g := start(t, func(c *Config) {
		ofPods(config)(c)
		c.PodNamespaces, c.WorkerPortsAnnotation, c.PodModel, c.APIKey = []string{"prod"}, "acme.com/ports", "namespace", new("secret")
	})
	id := g.serves(t, e)[e.URL]
	g.await(t, "/readiness", http.StatusOK)
	got := g.sent(t, http.MethodGet, "/workers/"+id, "", "Authorization", "Bearer secret")
	w := decode[shownWorker](t, got)
	require.Equal(t, "engine-0", w.Labels["smg.ai/pod-name"])
	require.Equal(t, "u1", w.Labels["smg.ai/pod-uid"])
	require.Equal(t, "prod", w.ModelID)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, strings.Replace(chat, "m1", "prod", 1), "Authorization", "Bearer secret").StatusCode)
	for _, line := range []string{
		"Starting K8s service discovery | selector: 'app=engine'", "K8s worker store synced, reconciling on change and every 60s",
		"IGW mode is on, because of service discovery",
	} {
		require.Equal(t, 1, strings.Count(g.Log.String(), line), line)
	}
	_, gauges := g.numbers(t)
	require.Equal(t, 1.0, gauges[`smg_discovery_workers_discovered source="kubernetes"`])
}

// DECISIONS.md row 9: a gateway that can never have a worker does not start.
func TestWithoutCredentialsAndOtherWorkersNothingStarts(t *testing.T) {
	nowhere(t)
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	ofPods("")(cfg)
	cfg.LogDir = t.TempDir()
	err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "failed to start service discovery, and no worker is named otherwise: no credentials")
	_, err = New(cfg, nil)
	require.ErrorContains(t, err, "failed to start service discovery")
}

// DECISIONS.md row 9, discovery.md sections 15 and 21 (D35): with other workers it serves those.
func TestWithoutCredentialsOtherWorkersAreServed(t *testing.T) {
	nowhere(t)
	named, posted := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	g := start(t, ofPods(""), named)
	g.logs(t, "Failed to start service discovery: no credentials")
	g.logs(t, "Continuing without service discovery")
	require.Equal(t, http.StatusOK, g.get(t, "/health").StatusCode)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	g.enrol(t, posted.URL)
	g.serves(t, named, posted)
}

// DECISIONS.md row 9: an API server that is away may come back, and is no reason to end.
func TestAnAPIServerThatIsAwayIsNotFatal(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	e := engine.Start(t, engine.Config{})
	g := start(t, ofPods(kubeconfig(t, away.URL)))
	g.logs(t, "K8s worker watcher error (auto-retrying with backoff): ")
	require.Equal(t, http.StatusOK, g.get(t, "/health").StatusCode)
	g.enrol(t, e.URL)
	g.serves(t, e)
	g.await(t, "/readiness", http.StatusOK)
}

// cli.md section 7.3: a start that fails has asked nobody anything.
func TestNoAPIServerIsAskedBeforeThePortIsBound(t *testing.T) {
	config, asked := onePod(t, engine.Start(t, engine.Config{}))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg := Default()
	cfg.Port = taken.Addr().(*net.TCPAddr).Port
	cfg.Host, cfg.PrometheusHost, cfg.PrometheusPort, cfg.LogDir = "127.0.0.1", "127.0.0.1", 0, t.TempDir()
	ofPods(config)(cfg)
	require.ErrorContains(t, Run(context.Background(), cfg), "failed to bind "+taken.Addr().String())
	require.Zero(t, asked.Load())
}

// DESIGN.md section 1: what nobody asked for does not run, and what runs is declared.
func TestPipelinesTellWhoUsesDiscovery(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := Default()
		cfg.PodSelector, cfg.ServiceDiscovery = []string{"app=engine"}, on
		var out strings.Builder
		require.NoError(t, Pipelines(cfg, "POST /v1/chat/completions", "text", &out))
		require.Contains(t, out.String(), "uses startup-workers, health")
		require.Equal(t, on, strings.Contains(out.String(), "health, discovery"), out.String())
	}
}
