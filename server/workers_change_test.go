package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/workers"
)

// only is the worker of a gateway that has one.
func (g *running) only(t testing.TB) *workers.Worker {
	t.Helper()
	all := g.gateway.registry.All()
	require.Len(t, all, 1)
	return all[0]
}

// revised waits until the worker has a revision, and no job is at it any more.
func (g *running) revised(t testing.TB, id string, revision uint64) (w shownWorker) {
	t.Helper()
	require.Eventually(t, func() bool {
		parsed, _ := workers.ParseID(id)
		now := g.gateway.registry.ByID(parsed)
		w = decode[shownWorker](t, g.get(t, "/workers/"+id))
		return now.Revision() == revision && w.JobStatus == nil
	}, patience, 5*time.Millisecond)
	return w
}

// workers.md sections 16 and 18
func TestAWorkerIsPatchedInPlace(t *testing.T) {
	e := engine.Start(t, engine.Config{Models: []string{"m1"}})
	g := start(t, nil)
	id := g.add(t, `{"url":"`+e.URL+`","api_key":"first-key","labels":{"a":"1"},"bootstrap_port":8998,"health":{"drain_settle_secs":0}}`)
	before := g.becomes(t, id, "ready")
	got := g.do(t, http.MethodPatch, "/workers/"+id, `{"labels":{"tier":"gold"},"priority":9,"api_key":"second-key","url":"http://elsewhere:1"}`,
		"Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
	require.JSONEq(t, `{"status":"accepted","worker_id":"`+id+`","message":"Worker update queued for background processing"}`, got.Body)
	now := g.revised(t, id, 1)
	require.Equal(t, "1", now.Labels["a"])
	require.Equal(t, "gold", now.Labels["tier"])
	require.Equal(t, 9, now.Priority)
	require.Equal(t, before.URL, now.URL, "it cannot be changed")
	require.Equal(t, "ready", now.Status)
	require.EqualValues(t, 8998, *g.only(t).Spec().BootstrapPort)
	require.Equal(t, "Bearer second-key", g.only(t).Bearer())
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	for _, key := range []string{"first-key", "second-key"} {
		require.NotContains(t, g.get(t, "/workers/"+id).Body, key)
		require.NotContains(t, g.Log.String(), key)
	}
}

// workers.md sections 6 and 16
func TestAPatchThatEndsHealthChecksMakesTheWorkerReady(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	w := g.only(t)
	w.SetStatus(workers.Failed)
	got := g.do(t, http.MethodPatch, "/workers/"+w.ID().String(), `{"health":{"disable_health_check":true}}`, "Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, got.StatusCode)
	g.becomes(t, w.ID().String(), "ready")
}

// workers.md sections 12, 16 and 18
func TestAWorkerIsReplacedUnderItsID(t *testing.T) {
	e := engine.Start(t, engine.Config{Models: []string{"m1"}})
	g := start(t, nil)
	id := g.add(t, `{"url":"`+e.URL+`","labels":{"a":"1"},"priority":7,"api_key":"k"}`)
	g.becomes(t, id, "ready")
	got := g.do(t, http.MethodPut, "/workers/"+id, `{"url":"`+e.URL+`","labels":{"b":"2"}}`, "Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
	require.JSONEq(t, `{"status":"accepted","worker_id":"`+id+`","message":"Worker update queued for background processing"}`, got.Body)
	now := g.revised(t, id, 1)
	require.Equal(t, "ready", now.Status)
	require.Equal(t, 50, now.Priority)
	require.Equal(t, "2", now.Labels["b"])
	require.NotContains(t, now.Labels, "a")
	require.Empty(t, g.only(t).Bearer())
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)

	got = g.do(t, http.MethodPut, "/workers/"+id, `{"url":"http://elsewhere:1"}`, "Content-Type", "application/json")
	requireAdminError(t, got, http.StatusBadRequest, "BAD_REQUEST", "URL mismatch: worker has URL '"+e.URL+"' but request body has 'http://elsewhere:1'")
}

// DECISIONS.md row 28, workers.md section 18
func TestChangesThatAreRefused(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	id := g.only(t).ID().String()
	tests := []struct {
		name, method, id, body string
		status                 int
		code, message          string
	}{
		{"a patch of nobody", http.MethodPatch, someID, `{}`, 404, "WORKER_NOT_FOUND", "Worker " + someID + " not found"},
		{"a patch of no id", http.MethodPatch, "nope", `{}`, 400, "BAD_REQUEST", "Invalid worker_id 'nope' (expected UUID)"},
		{"a patch that is no JSON", http.MethodPatch, id, `{`, 400, "BAD_REQUEST", "not valid JSON"},
		{"a patch that is no object", http.MethodPatch, id, `[]`, 400, "BAD_REQUEST", "must be a JSON object"},
		{"a patch of the wrong shape", http.MethodPatch, id, `{"health":{"timeout_secs":0}}`, 400, "BAD_REQUEST", "health.timeout_secs"},
		{"a replacement of nobody", http.MethodPut, someID, `{"url":"http://w:1"}`, 404, "WORKER_NOT_FOUND", "Worker " + someID + " not found"},
		{"a replacement of no id", http.MethodPut, "0", `{"url":"http://w:1"}`, 400, "BAD_REQUEST", "(expected UUID)"},
		{"a replacement without a URL", http.MethodPut, id, `{}`, 400, "BAD_REQUEST", "url"},
		{"a breaker of nobody", http.MethodPost, someID + "/breaker/reset", ``, 404, "WORKER_NOT_FOUND", "Worker " + someID + " not found"},
		{"a breaker of no id", http.MethodPost, "nope/breaker/reset", ``, 400, "BAD_REQUEST", "Invalid worker_id 'nope' (expected UUID)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireAdminError(t, g.do(t, tt.method, "/workers/"+tt.id, tt.body, "Content-Type", "application/json"), tt.status, tt.code, tt.message)
		})
	}
	requireAdminError(t, g.sent(t, http.MethodPatch, "/workers/"+id, `{}`, "Content-Type", "text/plain"), 400, "BAD_REQUEST", "Content-Type")
	require.Zero(t, g.only(t).Revision())
}

// workers.md section 11: the API does not wait for room
func TestAFullQueueIsTold(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	e.SetFaults(engine.Fault{Path: "/health", HangHeadMillis: -1})
	g := start(t, func(c *Config) { c.JobQueueCapacity, c.JobQueueConcurrency, c.HealthCheckTimeout = 1, 1, 3600 })
	g.add(t, `{"url":"`+e.URL+`"}`)
	require.Eventually(t, func() bool { return len(e.Requests()) > 0 }, patience, time.Millisecond, "the only place is taken")
	g.add(t, `{"url":"http://127.0.0.1:1"}`)
	requireAdminError(t, g.post(t, "/workers", `{"url":"http://127.0.0.1:2"}`), http.StatusInternalServerError, "INTERNAL_SERVER_ERROR",
		"Job queue full: 1 jobs pending (capacity: 1)")
}

// DECISIONS.md row 55
func TestABreakerIsClosedByHand(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.CBFailureThreshold, c.CBTimeout, c.DisableRetries = 2, 3600, true }, e)
	e.SetFaults(engine.Fault{Status: 500, Count: 2})
	for range 2 {
		require.Equal(t, http.StatusInternalServerError, g.post(t, chatPath, chat).StatusCode)
	}
	requireJSONError(t, g.post(t, chatPath, chat), http.StatusServiceUnavailable, "no_available_workers")
	id := g.only(t).ID().String()
	got := g.post(t, "/workers/"+id+"/breaker/reset", "")
	require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
	require.JSONEq(t, `{"status":"success","worker_id":"`+id+`","breaker":"closed"}`, got.Body)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	require.Equal(t, http.StatusOK, g.post(t, "/workers/"+id+"/breaker/reset", "").StatusCode, "one that is closed stays so")
}

// http-dataplane.md section 10, per-model override
func TestRetriesOfAModelAreThoseOfItsWorkers(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	e.SetFaults(engine.Fault{Status: 503})
	g := start(t, func(c *Config) { c.RetryMaxRetries, c.RetryInitialBackoff = 4, 1 })
	tests := []struct {
		name, resilience string
		attempts         int
	}{
		{"the operator's, without a word of the worker", `{}`, 4},
		{"more attempts", `{"max_retries":6}`, 6},
		{"none", `{"disable_retry":true}`, 1},
		{"none, whatever else it says", `{"disable_retry":true,"max_retries":6}`, 1},
		{"0 is one attempt", `{"max_retries":0}`, 1},
		{"another cadence", `{"initial_backoff_ms":2,"max_backoff_ms":2,"backoff_multiplier":1,"jitter_factor":0}`, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := g.add(t, `{"url":"`+e.URL+`","health":{"drain_settle_secs":0},"resilience":`+tt.resilience+`}`)
			g.becomes(t, id, "ready")
			before := len(posts(e))
			require.Equal(t, http.StatusServiceUnavailable, g.post(t, chatPath, chat).StatusCode)
			require.Equal(t, tt.attempts, len(posts(e))-before)
			require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
			g.becomes(t, id, "")
		})
	}
}

// http-dataplane.md section 10, per-model override: the model is the chosen worker's, whatever the client calls it.
func TestRetriesAreThoseOfTheWorkerThatWasAsked(t *testing.T) {
	const one, all = `"models":[{"id":"m1"}],`, ""
	tests := []struct {
		name, models, path, body string
	}{
		{"a request that names the model", one, chatPath, chat},
		{"a generation that names none", one, "/generate", `{"text":"hi"}`},
		{"a reranking that names none", one, "/v1/rerank", `{"query":"q","documents":["d"]}`},
		{"a model that only a worker of every model serves", all, chatPath, chat},
		{"no model, and a worker of every model", all, "/generate", `{"text":"hi"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int64
			e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // an engine that names no model
				switch {
				case r.Method == http.MethodPost:
					asked.Add(1)
					w.WriteHeader(http.StatusServiceUnavailable)
				case r.URL.Path != "/health":
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(e.Close)
			g := start(t, func(c *Config) { c.RetryMaxRetries, c.RetryInitialBackoff = 4, 1 })
			g.becomes(t, g.add(t, `{"url":"`+e.URL+`",`+tt.models+`"resilience":{"disable_retry":true}}`), "ready")
			require.Equal(t, tt.models == all, g.only(t).Model() == "", "it takes every model")
			require.Equal(t, http.StatusServiceUnavailable, g.post(t, tt.path, tt.body).StatusCode)
			require.EqualValues(t, 1, asked.Load())
		})
	}
}

// http-dataplane.md sections 4 and 10: retries that are off but for one model need its bodies in memory.
func TestAModelMayTurnRetriesOn(t *testing.T) {
	failing, good := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	failing.SetFaults(engine.Fault{Status: 503})
	g := start(t, func(c *Config) { c.DisableRetries, c.Policy = true, "round_robin" })
	for _, e := range []*engine.Running{failing, good} {
		g.becomes(t, g.add(t, `{"url":"`+e.URL+`","resilience":{"max_retries":3,"initial_backoff_ms":1,"max_backoff_ms":1}}`), "ready")
	}
	for range 4 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	require.NotEmpty(t, posts(failing), "it was asked, and somebody else after it")
	require.Len(t, posts(good), 4)
}

// http-dataplane.md section 10: what a worker leaves open is the operator's
func TestRetriesWith(t *testing.T) {
	operator := stages.RetrySettings{
		MaxAttempts: 5, InitialBackoff: 50 * time.Millisecond, MaxBackoff: time.Second, Multiplier: 1.5, Jitter: 0.2, Deadline: time.Minute,
	}
	spec, err := workers.ParseSpec([]byte(`{"url":"http://w:1","resilience":{"initial_backoff_ms":2000,"jitter_factor":0}}`))
	require.NoError(t, err)
	want := operator
	want.InitialBackoff, want.MaxBackoff, want.Jitter = 2*time.Second, 2*time.Second, 0
	require.Equal(t, want, *retriesWith(operator, spec.Resilience))
}

// cli.md section 5.10
func TestUnhealthyWorkersAreRemovedWithDiscoveryOrWhenAsked(t *testing.T) {
	for _, tt := range []struct {
		given      *bool
		discovered bool
		want       bool
	}{{nil, false, false}, {nil, true, true}, {new(true), false, true}, {new(false), true, false}} {
		c := RecoveryConfig{RemoveUnhealthyWorkers: tt.given}
		require.Equal(t, tt.want, c.RemovesUnhealthy(tt.discovered), fmt.Sprint(tt))
	}
}
