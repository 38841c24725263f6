package discovery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 2 * time.Minute

// scene is a whole gateway that finds its workers among the pods of a namespace of its own, through a proxy of its own.
type scene struct {
	cluster *clustertest.Cluster
	pods    *clustertest.Namespace
	proxy   *clustertest.Proxy
	log     *lines
	client  *http.Client
	gateway *server.Gateway
	URL     string
}

// newScene is a scene on the cluster that tests share.
func newScene(t *testing.T) *scene {
	t.Helper()
	return sceneOn(t, clustertest.Need(t))
}

// sceneOn is a scene without a gateway, for pods that are there before it: see start.
func sceneOn(t *testing.T, cluster *clustertest.Cluster) *scene {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &scene{
		cluster: cluster, pods: cluster.Namespace(t), proxy: cluster.Proxy(t), log: &lines{}, client: &http.Client{Transport: transport},
	}
}

// started is a scene whose gateway runs.
func started(t *testing.T, configure ...func(*server.Config)) *scene {
	t.Helper()
	s := newScene(t)
	s.start(t, configure...)
	return s
}

// start runs the gateway until the test ends. Discovery looks for pods with app=m; times are short where a test waits for them.
func (s *scene) start(t *testing.T, configure ...func(*server.Config)) {
	t.Helper()
	cfg := server.Default()
	cfg.ServiceDiscovery, cfg.PodSelector, cfg.PodPort = true, []string{"app=m"}, clustertest.Port
	cfg.PodNamespaces, cfg.Kubeconfig = []string{s.pods.Name}, s.pods.Kubeconfig(t, s.proxy)
	cfg.ResyncInterval, cfg.DrainSettle, cfg.StartupCheckInterval, cfg.HealthCheckInterval = 2, 2, 1, 1
	cfg.Policy = "round_robin"
	for _, c := range configure {
		c(cfg)
	}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	gateway, err := server.New(cfg, log)
	require.NoError(t, err)
	front := httptest.NewServer(gateway.Handler())
	s.gateway, s.URL = gateway, front.URL
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		front.Close()
		gateway.Close(context.Background())
		if t.Failed() {
			t.Log(s.log.tail(60))
		}
	})
}

// worker is what the admin API says of one.
type worker struct {
	ID            string            `json:"id"`
	URL           string            `json:"url"`
	Model         string            `json:"model_id"`
	Type          string            `json:"worker_type"`
	Status        string            `json:"status"`
	Cordoned      bool              `json:"cordoned"`
	Labels        map[string]string `json:"labels"`
	Load          int               `json:"load"`
	BootstrapPort *int              `json:"bootstrap_port"`
	KVConnector   string            `json:"kv_connector"`
	KVEngineID    string            `json:"kv_engine_id"`
}

func (w worker) uid() string  { return w.Labels[discovery.LabelPodUID] }
func (w worker) serves() bool { return w.Status == "ready" && !w.Cordoned }

// workers are all registered ones, by URL.
func (s *scene) workers(t *testing.T) map[string]worker {
	t.Helper()
	found, err := s.list()
	require.NoError(t, err)
	return found
}

func (s *scene) list() (map[string]worker, error) {
	resp, err := s.client.Get(s.URL + "/workers")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct{ Workers []worker }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	found := map[string]worker{}
	for _, w := range answer.Workers {
		if _, twice := found[w.URL]; twice {
			return nil, fmt.Errorf("two registrations at %s", w.URL)
		}
		found[w.URL] = w
	}
	return found, nil
}

// owners are the pods' uids by URL of the workers that serve.
func (s *scene) owners(t *testing.T) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for url, w := range s.workers(t) {
		if w.serves() {
			owners[url] = w.uid()
		} else {
			owners[url] = w.uid() + " " + w.Status
		}
	}
	return owners
}

// serving waits until the registry has these workers, all of them ready, and no other.
func (s *scene) serving(t *testing.T, want map[string]string) {
	t.Helper()
	s.until(t, fmt.Sprintf("the workers are %v", want), func() bool { return maps.Equal(s.owners(t), want) })
}

// until waits for a condition. The sentence says what never came true.
func (s *scene) until(t *testing.T, sentence string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		begin := time.Now()
		if condition() {
			return
		}
		if begin.After(deadline) {
			t.Fatalf("it never was so that %s; jobs %v; the workers are %v", sentence, s.jobs(t), s.owners(t))
		}
		time.Sleep(pause(20*time.Millisecond, begin))
	}
}

// pause is the time between two looks: longer where a look takes long, as that at a thousand workers does, since others need the
// cores too. What is over soon is not to be waited for by looking: the log tells of it.
func pause(least time.Duration, begin time.Time) time.Duration {
	return min(max(least, 3*time.Since(begin)), 500*time.Millisecond)
}

// always looks again and again, from now until the end of the test, or until the function that it returns is called, whether the
// workers are as they must be. wrong says what is wrong with them, or nothing.
func (s *scene) always(t *testing.T, wrong func(all map[string]worker) string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			begin := time.Now()
			all, err := s.list()
			if err != nil {
				t.Errorf("GET /workers: %v", err)
				return
			}
			if sentence := wrong(all); sentence != "" {
				t.Errorf("%s: %v", sentence, all)
				return
			}
			select {
			case <-time.After(pause(25*time.Millisecond, begin)):
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// passes waits until so many more passes have run.
func (s *scene) passes(t *testing.T, n int) {
	t.Helper()
	want := s.log.count("Pass over the workers") + n
	s.until(t, "passes go on", func() bool { return s.log.count("Pass over the workers") >= want })
}

// series is the value of a series of discovery, such as `registrations_total{result="success",source="kubernetes"}`; 0 if there is
// none.
func (s *scene) series(t *testing.T, name string) float64 {
	t.Helper()
	page := httptest.NewRecorder()
	s.gateway.Metrics().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if rest, ok := strings.CutPrefix(line, "smg_discovery_"+name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return value
		}
	}
	return 0
}

// The series of discovery that tests read.
const (
	added      = `registrations_total{result="success",source="kubernetes"}`
	removed    = `deregistrations_total{reason="reconciled",source="kubernetes"}`
	discovered = `workers_discovered{source="kubernetes"}`
)

// jobs are the registrations and removals that discovery has submitted.
func (s *scene) jobs(t *testing.T) [2]float64 {
	t.Helper()
	return [2]float64{s.series(t, added), s.series(t, removed)}
}

// do sends a request to the gateway and reads the answer.
func (s *scene) do(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

const (
	chatPath = "/v1/chat/completions"
	chat     = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
	chats    = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true}`
)

// pod is one of the pods that the selector matches.
func pod(name, ip string) clustertest.Pod {
	return clustertest.Pod{Name: name, IP: ip, Labels: map[string]string{"app": "m"}}
}

// run starts an engine and runs a pod around it.
func (s *scene) run(t *testing.T, name string) (clustertest.Pod, *clustertest.Engine) {
	t.Helper()
	e := clustertest.StartEngine(t)
	return s.pods.Run(t, pod(name, e.IP)), e
}

// lines is what a gateway logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a line.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(part))
}

// tail is the last lines, without passes.
func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept []string
	for line := range strings.Lines(l.text.String()) {
		if !strings.Contains(line, "Pass over the workers") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-n):], "")
}
