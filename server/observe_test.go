package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// serving waits until so many workers are available and the gateway says that it is ready.
func (g *running) serving(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		available := 0
		for _, w := range g.gateway.registry.All() {
			if w.Available() {
				available++
			}
		}
		return available == n
	}, patience, time.Millisecond, "never %d workers that serve", n)
	g.await(t, "/readiness", http.StatusOK)
}

// failures is what the breakers of all workers have counted against them.
func (g *running) failures() (n int64) {
	for _, w := range g.gateway.registry.All() {
		n += w.Breaker().ConsecutiveFailures()
	}
	return n
}

// requireJSONError: an error that the gateway made itself, in the form of the OpenAI routes, with its code twice.
func requireJSONError(t testing.TB, r response, status int, code string) {
	t.Helper()
	require.NoError(t, r.Err)
	require.Equal(t, status, r.StatusCode, r.Body)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Equal(t, code, r.Header.Get("X-SMG-Error-Code"))
	var body struct {
		Error struct{ Message, Type, Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.Body), &body), r.Body)
	require.Equal(t, code, body.Error.Code)
	require.NotEmpty(t, body.Error.Message)
	require.NotEmpty(t, body.Error.Type)
}

// posts are the POSTs that an engine got.
func posts(e *engine.Running) (found []engine.Request) {
	for _, r := range e.Requests() {
		if r.Method == http.MethodPost {
			found = append(found, r)
		}
	}
	return found
}

// enrol adds a worker by the worker API; more are further members of its spec.
func (g *running) enrol(t testing.TB, url string, more ...string) {
	t.Helper()
	spec := "{" + strings.Join(append([]string{fmt.Sprintf(`"url":%q`, url)}, more...), ",") + "}"
	r := g.post(t, "/workers", spec)
	require.Equal(t, http.StatusAccepted, r.StatusCode, r.Body)
}

// until waits for a condition.
func (g *running) until(t testing.TB, met func() bool) {
	t.Helper()
	require.Eventually(t, met, patience, time.Millisecond)
}

// worker is the registered worker of a URL.
func (g *running) worker(t testing.TB, url string) *workers.Worker {
	t.Helper()
	for _, w := range g.gateway.registry.All() {
		if w.URL() == url {
			return w
		}
	}
	require.Fail(t, "no such worker", url)
	return nil
}
