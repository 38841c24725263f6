package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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
			l := g.load(t, 2)
			g.until(t, func() bool { return len(posts(w1)) > 10 && len(posts(w2)) > 10 })
			tt.leave(w1)
			tt.leave(w2)
			g.await(t, "/readiness", http.StatusServiceUnavailable)
			require.Equal(t, http.StatusOK, g.get(t, "/liveness").StatusCode)
			require.Equal(t, http.StatusOK, g.get(t, "/health").StatusCode)
			l.from(t, 50, func(r response) {
				requireJSONError(t, r, http.StatusServiceUnavailable, "no_available_workers")
			})

			require.NoError(t, tt.comeBack(w1))
			require.NoError(t, tt.comeBack(w2))
			g.await(t, "/readiness", http.StatusOK)
			g.until(t, func() bool {
				return g.worker(t, w1.URL).Breaker().State() == workers.BreakerClosed && g.worker(t, w1.URL).Status() == workers.Ready &&
					g.worker(t, w2.URL).Breaker().State() == workers.BreakerClosed && g.worker(t, w2.URL).Status() == workers.Ready
			})
			l.from(t, 50, func(r response) { require.Equal(t, http.StatusOK, r.StatusCode, r.Body) })
			l.end()
			g.quiet(t)
			require.NotContains(t, strings.ToLower(g.Log.String()), "panic")
		})
	}
}

// load is clients that send one request after another until the end.
type load struct {
	answers chan response // of requests that are being sent; nobody has to read them
	over    chan struct{}
	clients sync.WaitGroup
	end     func()
}

func (g *running) load(t *testing.T, clients int) *load {
	l := &load{answers: make(chan response), over: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		close(l.over)
		l.clients.Wait()
	})
	t.Cleanup(l.end)
	for range clients {
		w := g.dial(t)
		l.clients.Go(func() { l.send(w) })
	}
	return l
}

// send goes on with one connection: the gateway never closes it, whatever becomes of its workers.
func (l *load) send(w *wire) {
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		chatPath, len(chat), chat)
	for {
		_, err := io.WriteString(w, request)
		r := w.whole()
		if err != nil || r.Err != nil {
			select { // until somebody looks
			case <-l.over:
			case l.answers <- r:
			}
			return
		}
		select {
		case <-l.over:
			return
		case l.answers <- r:
		default: // nobody looks at the moment
		}
	}
}

// from looks at the next answers, but for those to requests that were on their way already.
func (l *load) from(t *testing.T, n int, look func(r response)) {
	t.Helper()
	for i := range n {
		select {
		case r := <-l.answers:
			require.NoError(t, r.Err)
			if i >= 4 {
				look(r)
			}
		case <-time.After(patience):
			require.Fail(t, "the gateway answers nobody")
		}
	}
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
