package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C07, DECISIONS.md rows 5 and 32: the limit of a request bounds its attempts. A request that a hung worker has eaten up is
// answered with a 504 and goes nowhere else; the gateway and its other requests do not notice.
func TestC07AHungWorkerCostsOnlyItsOwnRequests(t *testing.T) {
	t.Parallel()
	const requests = 10
	w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
	g := start(t, func(c *Config) { c.RequestTimeout, c.RetryMaxRetries, c.CBFailureThreshold = 1, 2, 1000 }, w1, w2)
	w1.SetFaults(engine.Fault{HangHeadMillis: -1})

	healthy := g.healthy(t)
	statuses := g.together(t, requests, w1)
	require.GreaterOrEqual(t, statuses[http.StatusGatewayTimeout], requests/2, "%v", statuses)
	require.Len(t, posts(w1), requests/2, "round_robin gives each worker half of them")
	require.Len(t, posts(w2), requests/2, "and none goes to another when its time is over")

	w2.SetFaults(engine.Fault{HangHeadMillis: -1})
	requireJSONError(t, g.post(t, chatPath, chat), http.StatusGatewayTimeout, "call_upstream_timeout")
	healthy()
	for _, e := range []*engine.Running{w1, w2} {
		require.Eventually(t, func() bool { return e.State().InFlight == 0 }, patience, time.Millisecond, "the worker goes on for nobody")
	}
	g.quiet(t)
}

// healthy is a client that asks after the gateway's health five times a second until it is told to end. It is answered throughout, and
// not when the requests that hang are over: most of the time at once, that is within five times the 200 ms of the case.
func (g *running) healthy(t *testing.T) (end func()) {
	t.Helper()
	over := make(chan struct{})
	var took []time.Duration
	var asking sync.WaitGroup
	c := g.dial(t)
	asking.Go(func() {
		next := time.NewTicker(200 * time.Millisecond)
		defer next.Stop()
		for {
			began := time.Now()
			_, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n")
			if r := c.whole(); err != nil || r.Err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("GET /health: %d, %v, %v", r.StatusCode, err, r.Err)
				return
			}
			took = append(took, time.Since(began))
			select {
			case <-over:
				return
			case <-next.C:
			}
		}
	})
	stop := sync.OnceFunc(func() { close(over); asking.Wait() })
	t.Cleanup(stop)
	return func() {
		t.Helper()
		stop()
		slices.Sort(took)
		require.NotEmpty(t, took)
		require.Less(t, took[len(took)/2], time.Second)
	}
}

// together sends requests all at once and asks after the gateway's health while a worker keeps some waiting. It counts the
// statuses; an error is a JSON one.
func (g *running) together(t *testing.T, requests int, hung *engine.Running) map[int]int {
	t.Helper()
	answers := make(chan response, requests)
	for i := range requests {
		c := g.dial(t)
		c.post(t, chatPath, len(chat), chat, fmt.Sprintf("X-Request-Id: r%d", i))
		go func() { answers <- c.whole() }()
	}
	require.Eventually(t, func() bool { return hung.State().InFlight > 0 }, patience, time.Millisecond)
	require.Equal(t, http.StatusOK, g.get(t, "/health").StatusCode)
	require.Equal(t, http.StatusOK, g.get(t, "/readiness").StatusCode)
	statuses := map[int]int{}
	for range requests {
		a := <-answers
		require.NoError(t, a.Err)
		if statuses[a.StatusCode]++; a.StatusCode != http.StatusOK {
			requireJSONError(t, a, http.StatusGatewayTimeout, "call_upstream_timeout")
		}
	}
	return statuses
}

// C07: where a worker's own limit leaves time for another attempt, the one before is over by then, its connection closed.
func TestC07AnAttemptIsOverBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	hangs := []struct {
		name string
		hang func(a *act)
	}{
		{"no answer", func(*act) {}},
		{"half a head", func(a *act) { a.write("HTTP/1.1 200 OK\r\nContent-Ty") }},
		{"a head without its body", func(a *act) { a.head("200 OK", "Content-Type: application/json", "Content-Length: 100") }},
		{"half of an answer", func(a *act) {
			a.head("200 OK", "Content-Type: application/json", "Content-Length: 100")
			a.write(`{"id":"W1-1"`)
		}},
		{"half of an error", func(a *act) {
			a.head("503 Service Unavailable", "Content-Type: application/json", "Transfer-Encoding: chunked")
			a.chunk(`{"error"`)
		}},
	}
	all := map[string]*succession{}
	for _, h := range hangs {
		all[h.name+", then a good answer"] = &succession{hang: h.hang, recovers: true}
		all[h.name+" from anybody"] = &succession{hang: h.hang}
	}
	g := start(t, func(c *Config) { c.RetryMaxRetries, c.CBFailureThreshold = 3, 1000 })
	for range 2 {
		w := startPuppet(t, func(a *act) { all[a.Header.Get("X-Correlation-Id")].attempt(t, a) })
		g.enrol(t, w.URL, `"http_pool":{"timeout_secs":1}`)
	}
	g.serving(t, 2)
	clients := map[string]*wire{}
	for name := range all { // all at once: they wait for time to pass
		clients[name] = g.dial(t)
		clients[name].post(t, chatPath, len(chat), chat, "X-Correlation-Id: "+name)
	}
	retries := 0
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			r := clients[name].whole()
			retries += len(s.list()) - 1
			if s.recovers {
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				return
			}
			requireJSONError(t, r, http.StatusGatewayTimeout, "call_upstream_timeout")
			require.Len(t, s.list(), 3)
		})
	}
	g.quiet(t)
	counted := g.gateway.metrics.Workers.Retries("regular", "chat")
	require.EqualValues(t, retries, testutil.ToFloat64(counted), "retries that are counted")
}

// succession is the attempts of one request, in the order of their coming.
type succession struct {
	hang     func(a *act) // what a worker does before it hangs
	recovers bool         // the second attempt is answered

	mu   sync.Mutex
	acts []*act
}

func (s *succession) list() []*act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acts
}

// attempt waits until the attempt before is over, which the end of this one does nothing for.
func (s *succession) attempt(t *testing.T, a *act) {
	s.mu.Lock()
	s.acts = append(s.acts, a)
	n := len(s.acts)
	s.mu.Unlock()
	if n > 1 {
		before := s.list()[n-2].gone
		select {
		case <-before:
		case <-a.gone:
			select {
			case <-before:
			default:
				t.Error("the attempt before is still open when this one is over")
			}
		}
	}
	if s.recovers && n > 1 {
		a.answer(`{"id":"W2-1"}`)
		return
	}
	s.hang(a)
	<-a.gone
}
