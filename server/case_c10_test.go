package server

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// Case C10, http-dataplane.md sections 5.2 and 13: while every worker is gone the gateway lives, says that it is not ready, and
// answers each request with a JSON error; when they come back it serves, and nobody has to tell it.
func TestC10TheGatewayOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		leave    func(*engine.Running)
		comeBack func(*engine.Running) error
	}{
		{
			"ports and connections are closed",
			func(e *engine.Running) { e.Down() },
			func(e *engine.Running) error { return e.Up() },
		},
		{
			"requests and probes fail",
			func(e *engine.Running) { e.SetFaults(engine.Fault{Path: "*", Status: 503}) },
			func(e *engine.Running) error { e.SetFaults(); return nil },
		},
		{
			"connections are reset",
			func(e *engine.Running) { e.SetFaults(engine.Fault{Path: "*", Reset: true}) },
			func(e *engine.Running) error { e.SetFaults(); return nil },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait for time to pass
			w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
			g := start(t, func(c *Config) {
				c.HealthFailureThreshold, c.HealthSuccessThreshold, c.HealthCheckInterval, c.CBTimeout = 1, 1, 1, 1
			}, w1, w2)
			l := g.load(t)
			l.more(t)
			l.phase.Store(bothGo)
			tt.leave(w1)
			tt.leave(w2)
			l.phase.Store(bothLeft)
			g.await(t, "/readiness", http.StatusServiceUnavailable)
			l.phase.Store(noneServes)
			for range 5 {
				l.more(t)
				require.Equal(t, http.StatusOK, g.get(t, "/liveness").StatusCode)
				require.Equal(t, http.StatusOK, g.get(t, "/health").StatusCode)
				require.Equal(t, http.StatusServiceUnavailable, g.get(t, "/readiness").StatusCode)
			}
			l.phase.Store(bothReturn)
			require.NoError(t, tt.comeBack(w1))
			require.NoError(t, tt.comeBack(w2))
			g.await(t, "/readiness", http.StatusOK)
			g.until(t, func() bool {
				return g.worker(t, w1.URL).Breaker().State() == workers.BreakerClosed && g.worker(t, w1.URL).Status() == workers.Ready &&
					g.worker(t, w2.URL).Breaker().State() == workers.BreakerClosed && g.worker(t, w2.URL).Status() == workers.Ready
			})
			l.phase.Store(bothBack)
			for range 5 {
				l.more(t)
			}
			l.end()
			l.check(t)
			g.quiet(t)
			require.NotContains(t, strings.ToLower(g.Log.String()), "panic")
		})
	}
}

// The phases of C10, in their order.
const (
	bothServe  = iota
	bothGo     // one of the workers has gone, perhaps both
	bothLeft   // and the gateway is about to notice
	noneServes // it has
	bothReturn // one of them is there again, perhaps both
	bothBack   // and the gateway knows
)

// load is clients that send 50 requests a second, if they are answered, until the end. Every answer is kept.
type load struct {
	phase   atomic.Int32
	over    chan struct{}
	clients sync.WaitGroup
	end     func()

	mu      sync.Mutex
	answers []phased
}

// phased is an answer, and the phases when its request was sent and when it had been read.
type phased struct {
	response
	sent, read int32
}

func (g *running) load(t *testing.T) *load {
	const clients, each = 10, 200 * time.Millisecond // of a client, between two requests
	l := &load{over: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		close(l.over)
		l.clients.Wait()
	})
	t.Cleanup(l.end)
	for range clients {
		w := g.dial(t)
		l.clients.Go(func() { l.send(w, each) })
	}
	return l
}

// send goes on with one connection: the gateway never closes it, whatever becomes of its workers.
func (l *load) send(w *wire, pause time.Duration) {
	request := rawPost("HTTP/1.1", chatPath, chat)
	next := time.NewTicker(pause)
	defer next.Stop()
	for {
		a := phased{sent: l.phase.Load()}
		_ = w.SetDeadline(time.Now().Add(patience))
		_, err := io.WriteString(w, request)
		a.response = w.whole()
		if err != nil {
			a.Err = err
		}
		a.read = l.phase.Load()
		l.mu.Lock()
		l.answers = append(l.answers, a)
		l.mu.Unlock()
		if a.Err != nil {
			return
		}
		select {
		case <-l.over:
			return
		case <-next.C:
		}
	}
}

// all are the answers so far.
func (l *load) all() []phased {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.answers)
}

// more waits until ten requests that were sent in this phase have been answered, besides those that were by now.
func (l *load) more(t *testing.T) {
	t.Helper()
	now := l.phase.Load()
	count := func() (n int) {
		for _, a := range l.all() {
			if a.sent == now {
				n++
			}
		}
		return n
	}
	enough := count() + 10
	require.Eventually(t, func() bool { return count() >= enough }, patience, 5*time.Millisecond, "the gateway answers nobody")
}

// check looks at every answer: it is a whole one, or a whole JSON error.
func (l *load) check(t *testing.T) {
	t.Helper()
	for _, a := range l.all() {
		require.NoError(t, a.Err, "sent in phase %d", a.sent)
		switch {
		case a.read == bothServe, a.sent == bothBack:
			require.Equal(t, http.StatusOK, a.StatusCode, a.Body)
		case a.sent == noneServes && a.read == noneServes:
			requireJSONError(t, a.response, http.StatusServiceUnavailable, "no_available_workers")
		case a.sent >= bothLeft && a.read <= noneServes:
			requireFailure(t, a.response)
		case a.StatusCode != http.StatusOK:
			requireFailure(t, a.response)
		}
	}
}

// requireFailure: a JSON error of the gateway or a worker, of the 5xx.
func requireFailure(t *testing.T, r response) {
	t.Helper()
	require.GreaterOrEqual(t, r.StatusCode, 500, r.Body)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	var body struct {
		Message string // of an engine's own shape
		Error   struct{ Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.Body), &body), r.Body)
	require.NotEmpty(t, body.Error.Message+body.Message, r.Body)
}

// C10: a gateway without any worker says so, until the first one is registered.
func TestC10AGatewayWithoutWorkersServesOnceOneIsRegistered(t *testing.T) {
	g := start(t, nil)
	for range 2 {
		g.await(t, "/readiness", http.StatusServiceUnavailable)
		for _, route := range routesWithModel {
			r := g.post(t, route.path, route.body)
			requireJSONError(t, r, http.StatusServiceUnavailable, "no_available_workers")
			require.Equal(t, "1", r.Header.Get("Retry-After"))
			require.Contains(t, r.Body, "No worker is registered")
		}
		w := engine.Start(t, engine.Config{Name: "W1"})
		g.enrol(t, w.URL, `"health":{"drain_settle_secs":0}`)
		g.serving(t, 1)
		require.Contains(t, g.post(t, chatPath, chat).Body, `"id":"W1-`)

		id := g.worker(t, w.URL).ID().String()
		require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
		g.until(t, func() bool { return g.gateway.registry.Len() == 0 })
	}
}
