package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// dpEngine is an SGLang engine with two data-parallel ranks, of which first is the first; it tells which of them each chat was for.
func dpEngine(t testing.TB, address string, first int) (w *httpWorker, ranks chan int) {
	ranks = make(chan int, 1000)
	w = startHTTPWorker(t, workerPlan{
		Addr:   address,
		Models: `{"object":"list","data":[{"id":"m1","object":"model","owned_by":"sglang"}]}`,
		Get: func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/server_info":
				_, _ = rw.Write([]byte(`{"dp_size":2,"served_model_name":"m1"}`))
			case "/v1/loads":
				_, _ = fmt.Fprintf(rw, `{"timestamp":"now","dp_rank_count":2,"loads":[{"dp_rank":%d,"num_running_reqs":1},{"dp_rank":%d,"num_running_reqs":2}]}`, first, first+1)
			default:
				http.NotFound(rw, r)
			}
		},
		Post: func(rw *postWriter, r *http.Request) {
			var body struct {
				Rank   *int `json:"data_parallel_rank"`
				Stream bool `json:"stream"`
			}
			if json.NewDecoder(r.Body).Decode(&body) != nil || body.Rank == nil {
				ranks <- -1
				return
			}
			ranks <- *body.Rank
			rw.Header().Set("Content-Type", "application/json")
			answer := chatAnswer
			if body.Stream {
				rw.Header().Set("Content-Type", "text/event-stream")
				answer = "data: [DONE]\n\n"
			}
			_, _ = rw.Write([]byte(answer))
		},
	})
	return w, ranks
}

// Case C30, workers.md section 5: an engine with two data-parallel ranks is two workers, both reached by its own URL, each request
// carrying the rank that it is for. Removal takes the ranks of the address; the id of one rank stands for that one.
func TestC30DataParallelRanks(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			if strings.HasPrefix(address, "[") && !hasIPv6() {
				t.Skip("no IPv6 on the loopback interface")
			}
			w, ranks := dpEngine(t, address, 0)
			g := start(t, func(c *Config) {
				c.WorkerURLs, c.DPAware, c.LoadMonitorInterval, c.HealthCheckInterval = []string{w.URL}, true, 1, 1
				c.HealthFailureThreshold, c.HealthCheckTimeout, c.RemoveUnhealthyWorkers, c.DrainSettle = 1, 1, new(true), 0
			})
			g.serving(t, 2)
			require.Equal(t, []string{w.URL + "@0", w.URL + "@1"}, g.urls(t))
			for _, body := range []string{chat, chats} {
				require.Equal(t, map[int]int{0: 10, 1: 10}, g.split(t, body, ranks))
			}
			g.until(t, func() bool {
				a, b := g.worker(t, w.URL+"@0").Report(), g.worker(t, w.URL+"@1").Report()
				return a != nil && a.Running == 1 && b != nil && b.Running == 2
			})
			for _, s := range w.Seen("") {
				require.NotContains(t, s.URI+s.Host, "@")
				require.Contains(t, w.URL, s.Host)
			}
			g.ranksComeAndGo(t, w.URL)
		})
	}
}

// split sends twenty requests, and counts which rank they were for.
func (g *running) split(t *testing.T, body string, ranks <-chan int) map[int]int {
	t.Helper()
	for range 20 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, body).StatusCode)
	}
	count := map[int]int{}
	for range 20 {
		count[<-ranks]++
	}
	return count
}

// Case C30, second run: of an engine that has ranks 4 and 5 of 8, each request says the rank's own number.
func TestC30RanksOfALargerGroupKeepTheirNumbers(t *testing.T) {
	w, ranks := dpEngine(t, "127.0.0.1:0", 4)
	g := start(t, func(c *Config) { c.WorkerURLs, c.DPAware = []string{w.URL}, true })
	g.serving(t, 2)
	require.Equal(t, []string{w.URL + "@4", w.URL + "@5"}, g.urls(t))
	for _, body := range []string{chat, chats} {
		require.Equal(t, map[int]int{4: 10, 5: 10}, g.split(t, body, ranks))
	}
}

func (g *running) ranksComeAndGo(t *testing.T, url string) {
	zero := g.worker(t, url+"@0").ID().String()
	put := g.do(t, http.MethodPut, "/workers/"+zero, `{"url":"`+url+`@0"}`, "Content-Type", "application/json")
	requireAdminError(t, put, http.StatusBadRequest, "BAD_REQUEST", "--dp-aware")
	requireAdminError(t, g.post(t, "/workers", `{"url":"`+url+`"}`), http.StatusConflict, "WORKER_ALREADY_EXISTS", zero)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+zero, "").StatusCode)
	g.becomes(t, zero, "")
	require.Equal(t, []string{url + "@1"}, g.urls(t), "the id of a rank stands for this rank")
	g.becomes(t, g.add(t, `{"url":"`+url+`@0"}`), "ready")
	require.ElementsMatch(t, []string{url + "@0", url + "@1"}, g.urls(t))
	for _, w := range g.gateway.registry.All() {
		w.SetStatus(workers.Failed)
	}
	require.NoError(t, g.gateway.enroller.RemoveAt(t.Context(), url))
	g.until(t, func() bool { return g.gateway.registry.Len() == 0 })
}

// urls are those of GET /workers, in its order.
func (g *running) urls(t testing.TB) (urls []string) {
	t.Helper()
	for _, w := range decode[struct{ Workers []shownWorker }](t, g.get(t, "/workers")).Workers {
		urls = append(urls, w.URL)
	}
	return urls
}

// Case C30: ranks of an engine that has died are removed, every one of them, and may be added again
func TestC30RanksOfADeadEngineAreRemoved(t *testing.T) {
	t.Parallel() // it waits
	w, _ := dpEngine(t, "127.0.0.1:0", 0)
	g := start(t, func(c *Config) {
		c.WorkerURLs, c.DPAware, c.HealthCheckInterval, c.HealthCheckTimeout = []string{w.URL}, true, 1, 1
		c.HealthFailureThreshold, c.HealthCheckEndpoint, c.RemoveUnhealthyWorkers = 1, "/health", new(true)
	})
	g.serving(t, 2)
	w.Close()
	require.Eventually(t, func() bool { return g.gateway.registry.Len() == 0 }, patience, 10*time.Millisecond)
	require.Contains(t, g.Log.String(), "worker has failed, it is removed")
	again, _ := dpEngine(t, strings.TrimPrefix(w.URL, "http://"), 0)
	g.becomes(t, g.add(t, `{"url":"`+again.URL+`"}`), "ready")
	require.Len(t, g.urls(t), 2)
}
