package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// strict is an engine that answers 401 to whatever comes without its key, and whose health is elsewhere.
type strict struct {
	URL string

	mu      sync.Mutex
	key     string
	only    []string // paths that ask for the key; nil: all
	waiting int      // requests in its queue, as it says
	seen    []string // "GET /ping" of what came with the key, "GET /ping without the key" of the rest
}

func startStrict(t *testing.T, key string, waiting int) *strict {
	t.Helper()
	s := &strict{key: key, waiting: waiting}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := r.Method + " " + r.URL.Path
	if r.Header.Get("Authorization") != "Bearer "+s.key {
		s.seen = append(s.seen, asked+" without the key")
		if s.only == nil || strings.Contains(strings.Join(s.only, " "), r.URL.Path) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	} else {
		s.seen = append(s.seen, asked)
	}
	switch r.URL.Path {
	case "/ping":
	case "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m1","object":"model","owned_by":"sglang"}]}`)
	case "/v1/loads":
		fmt.Fprintf(w, `{"timestamp":"2026-01-01T00:00:00","dp_rank_count":1,"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":%d,`+
			`"num_waiting_uncached_tokens":%d,"num_total_reqs":%[1]d,"token_usage":0,"gen_throughput":100}]}`, s.waiting, 10_000*s.waiting)
	case chatPath:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"m1","choices":[]}`)
	default:
		http.NotFound(w, r)
	}
}

// count is how many requests of this kind have come.
func (s *strict) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.seen {
		if asked == what {
			n++
		}
	}
	return n
}

// unkeyed are the requests without the key.
func (s *strict) unkeyed() (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.seen {
		if strings.HasSuffix(asked, "without the key") {
			found = append(found, asked)
		}
	}
	return found
}

// again waits until an engine has been asked so once more.
func (s *strict) again(t *testing.T, what string) {
	t.Helper()
	before := s.count(what)
	require.Eventually(t, func() bool { return s.count(what) > before }, patience, patience/10_000, what)
}

// c13 is the gateway of the case.
func c13(c *Config) {
	c.HealthCheckEndpoint, c.HealthCheckInterval, c.LoadMonitorInterval, c.Policy = "/ping", 1, 1, "least_load"
}

// reported waits until so many workers have a load report.
func (g *running) reported(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		found := 0
		for _, w := range g.gateway.registry.All() {
			if w.Report() != nil {
				found++
			}
		}
		return found == n
	}, patience, patience/10_000)
}

// chatting is so many clients that send so many chats each, one after the other, which are all served.
func (g *running) chatting(t *testing.T, clients, each int, headers ...string) {
	t.Helper()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if r := g.post(t, chatPath, chat, headers...); r.StatusCode != http.StatusOK {
					t.Errorf("a request was answered %d", r.StatusCode)
				}
			}
		})
	}
	all.Wait()
}

// Case C13 (probes and load polls without credentials): workers that are named at start have the gateway's key in all that they are
// asked, on the path that was configured; and what they say of their load is heeded.
func TestC13EveryQuestionOfAGatewayWithAKeyCarriesIt(t *testing.T) {
	t.Parallel() // it waits
	busy, idle := startStrict(t, sharedKey, 8), startStrict(t, sharedKey, 0)
	g := start(t, func(c *Config) {
		c13(c)
		c.APIKey, c.WorkerURLs = new(sharedKey), []string{busy.URL, idle.URL}
	})
	g.serving(t, 2)
	g.reported(t, 2)
	bearer := []string{"Authorization", "Bearer " + sharedKey}
	g.chatting(t, 8, 5, bearer...)
	require.Greater(t, idle.count("POST "+chatPath), 24, "of 40, most go where nobody waits")
	idle.again(t, "GET /ping")
	idle.again(t, "GET /v1/loads")
	for _, s := range []*strict{busy, idle} {
		require.Empty(t, s.unkeyed())
		require.Zero(t, s.count("GET /health"))
	}
	require.NotContains(t, g.do(t, http.MethodGet, "/workers", "", bearer...).Body+g.Log.String(), sharedKey)
}

// C13, second run: a worker has the key of its spec, and another one once that is changed.
func TestC13AKeyThatIsChangedIsInForceAtOnce(t *testing.T) {
	t.Parallel() // it waits
	const second = "second-8c21d4"
	e := startStrict(t, workersKey, 0)
	g := start(t, c13)
	require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+e.URL+`","api_key":"`+workersKey+`"}`).StatusCode)
	g.serving(t, 1)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	require.Empty(t, e.unkeyed())

	id := g.gateway.registry.All()[0].ID().String()
	e.mu.Lock()
	e.key = second
	e.mu.Unlock()
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodPatch, "/workers/"+id, `{"api_key":"`+second+`"}`).StatusCode)
	require.Eventually(t, func() bool { return g.gateway.registry.All()[0].Bearer() == "Bearer "+second }, patience, patience/10_000)
	e.again(t, "GET /ping") // what was on its way has been answered
	e.again(t, "GET /v1/loads")
	before := len(e.unkeyed())
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	e.again(t, "GET /ping")
	e.again(t, "GET /v1/loads")
	require.Len(t, e.unkeyed(), before, "after the change everything carries the new key")
	require.NotContains(t, g.get(t, "/workers").Body+g.Log.String(), second)
}

// C13, third run: an engine that refuses polls alone is a worker without a report: ready, and neither left out nor taken for idle.
func TestC13AWorkerThatRefusesPollsIsReady(t *testing.T) {
	open, closed := startStrict(t, "", 0), startStrict(t, "nobody has it", 0)
	open.only, closed.only = []string{}, []string{"/v1/loads", "/metrics"}
	g := start(t, func(c *Config) {
		c13(c)
		c.WorkerURLs = []string{open.URL, closed.URL}
	})
	g.serving(t, 2)
	g.reported(t, 1)
	closed.again(t, "GET /v1/loads without the key")
	for _, w := range g.gateway.registry.All() {
		require.Equal(t, workers.Ready, w.Status())
		require.Equal(t, w.URL() == open.URL, w.Report() != nil)
	}
	const clients, each = 8, 20
	g.chatting(t, clients, each)
	for _, s := range []*strict{open, closed} { // by luck it is not: of 160 tosses of a coin, 32 to 128 are heads
		share := float64(s.count("POST "+chatPath+" without the key")) / (clients * each)
		require.InDelta(t, 0.5, share, 0.3, "of %s", s.URL)
	}
	require.Equal(t, http.StatusOK, g.get(t, "/readiness").StatusCode)
}
