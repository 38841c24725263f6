package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// shownWorker is a worker as the API shows it.
type shownWorker struct {
	ID        string             `json:"id"`
	ModelID   string             `json:"model_id"`
	URL       string             `json:"url"`
	Type      string             `json:"worker_type"`
	Mode      string             `json:"connection_mode"`
	Runtime   string             `json:"runtime_type"`
	Labels    map[string]string  `json:"labels"`
	Priority  int                `json:"priority"`
	IsHealthy bool               `json:"is_healthy"`
	Status    string             `json:"status"`
	Load      int                `json:"load"`
	JobStatus *workers.JobStatus `json:"job_status"`
}

// decode reads a JSON answer.
func decode[T any](t testing.TB, r response) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.Body), &v), r.Body)
	return v
}

// requireAdminError: an error in the form of the worker API, which is no other route's.
func requireAdminError(t testing.TB, r response, status int, code, message string) {
	t.Helper()
	require.Equal(t, status, r.StatusCode, r.Body)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Equal(t, code, r.Header.Get("X-Smg-Error-Code"))
	require.NotEmpty(t, r.Header.Get("X-Request-Id"))
	body := decode[map[string]string](t, r)
	require.Len(t, body, 2, r.Body)
	require.Equal(t, code, body["code"])
	require.Contains(t, body["error"], message)
}

// add posts a worker and returns the id that it will have.
func (g *running) add(t testing.TB, spec string) string {
	t.Helper()
	got := g.post(t, "/workers", spec)
	require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
	return decode[accepted](t, got).WorkerID
}

// becomes waits until a worker has a status; "" is that it is not there.
func (g *running) becomes(t testing.TB, id, status string) (w shownWorker) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := g.get(t, "/workers/"+id)
		if got.StatusCode == http.StatusNotFound {
			return status == ""
		}
		w = decode[shownWorker](t, got)
		return w.Status == status
	}, patience, 5*time.Millisecond, "worker %s never became %q", id, status)
	return w
}

// workers.md section 18
func TestAWorkerIsAddedInTheBackground(t *testing.T) {
	t.Parallel() // it waits
	e := engine.Start(t, engine.Config{Models: []string{"m1"}})
	e.SetFaults(engine.Fault{Path: "/health", Status: 503})
	g := start(t, nil)
	const key = "the-workers-own-key"
	spec := `{"url":"` + e.URL + `/","api_key":"` + key + `","labels":{"tier":"gold"},"priority":7,"unknown":{"is":"ignored"}}`

	got := g.post(t, "/workers", spec, "X-Request-Id", "one")
	require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
	require.Equal(t, "one", got.Header.Get("X-Request-Id"))
	id := decode[accepted](t, got).WorkerID
	require.Equal(t, "/workers/"+id, got.Header.Get("Location"))
	require.JSONEq(t, `{"status":"accepted","worker_id":"`+id+`","url":"`+e.URL+`/","location":"/workers/`+id+
		`","message":"Worker addition queued for background processing"}`, got.Body)

	pending := g.get(t, "/workers/"+id)
	require.NotContains(t, pending.Body, key)
	shown := decode[shownWorker](t, pending)
	require.Equal(t, "pending", shown.Status)
	require.Equal(t, e.URL, shown.URL)
	require.False(t, shown.IsHealthy)
	require.NotNil(t, shown.JobStatus)
	require.Equal(t, "AddWorker", shown.JobStatus.JobType)
	require.Nil(t, shown.JobStatus.Message)
	require.Zero(t, decode[struct{ Total int }](t, g.get(t, "/workers")).Total, "not listed yet")
	for _, again := range []string{spec, `{"url":"` + e.URL + `//"}`} {
		requireAdminError(t, g.post(t, "/workers", again), http.StatusConflict, "WORKER_CREATE_IN_PROGRESS", id)
	}

	e.SetFaults()
	shown = g.becomes(t, id, "ready")
	require.True(t, shown.IsHealthy)
	require.Nil(t, shown.JobStatus)
	require.Equal(t, "m1", shown.ModelID)
	require.Equal(t, "sglang", shown.Runtime)
	require.Equal(t, "regular", shown.Type)
	require.Equal(t, "http", shown.Mode)
	require.Equal(t, "gold", shown.Labels["tier"])
	require.Equal(t, 7, shown.Priority)
	requireAdminError(t, g.post(t, "/workers", spec), http.StatusConflict, "WORKER_ALREADY_EXISTS", id)

	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode, "it serves")
	for _, path := range []string{"/workers", "/workers/" + id} {
		require.NotContains(t, g.get(t, path).Body, key)
	}
	require.NotContains(t, g.Log.String(), key)
}

// workers.md section 18: why a registration failed is in the log alone.
func TestAWorkerThatNeverComesUpIsForgotten(t *testing.T) {
	t.Parallel() // it waits
	e := engine.Start(t, engine.Config{})
	e.Down()
	g := start(t, func(c *Config) { c.StartupTimeout = 1 })
	id := g.add(t, `{"url":"`+e.URL+`"}`)
	g.becomes(t, id, "")
	requireAdminError(t, g.get(t, "/workers/"+id), http.StatusNotFound, "WORKER_NOT_FOUND", "Worker "+id+" not found")
	require.Contains(t, g.Log.String(), "worker not registered")

	require.NoError(t, e.Up())
	again := g.add(t, `{"url":"`+e.URL+`"}`)
	require.NotEqual(t, id, again)
	require.Nil(t, g.becomes(t, again, "ready").JobStatus, "the failure before is over")
}

// DECISIONS.md row 28, workers.md section 18
func TestWhatIsNoWorkerIsRefused(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, func(c *Config) { c.MaxPayloadSize, c.BodyStallTimeout = 1000, 1 })
	tests := []struct {
		name, body, contentType string
		status                  int
		code, message           string
	}{
		{"no JSON", `{"url":`, "application/json", 400, "BAD_REQUEST", "not valid JSON"},
		{"nothing", ``, "application/json", 400, "BAD_REQUEST", "not valid JSON"},
		{"a list", `[1]`, "application/json", 400, "BAD_REQUEST", "must be a JSON object"},
		{"null", `null`, "application/json", 400, "BAD_REQUEST", "must be a JSON object"},
		{"no URL", `{}`, "application/json", 400, "BAD_REQUEST", "url"},
		{"a URL that is a number", `{"url":1}`, "application/json", 400, "BAD_REQUEST", "url"},
		{"a URL without a scheme", `{"url":"10.0.0.5:8000"}`, "application/json", 400, "BAD_REQUEST", "http://"},
		{"a URL without a host", `{"url":"http://"}`, "application/json", 400, "BAD_REQUEST", "host"},
		{"a type that is none", `{"url":"http://w:1","worker_type":"prefil"}`, "application/json", 400, "BAD_REQUEST", "worker_type"},
		{"a priority that is text", `{"url":"http://w:1","priority":"high"}`, "application/json", 400, "BAD_REQUEST", "priority"},
		{"another content type", `{"url":"http://w:1"}`, "text/plain", 400, "BAD_REQUEST", "Content-Type"},
		{"no content type", `{"url":"http://w:1"}`, "", 400, "BAD_REQUEST", "Content-Type"},
		{"a body that is too large", `{"url":"http://w:1"` + strings.Repeat(" ", 1000) + "}", "application/json", 413, "request_body_too_large", "larger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if tt.contentType != "" {
				headers = []string{"Content-Type", tt.contentType}
			}
			got := g.sent(t, http.MethodPost, "/workers", tt.body, headers...)
			requireAdminError(t, got, tt.status, tt.code, tt.message)
			require.NotContains(t, got.Body, "workers.", "no name of a type")
		})
	}
	t.Run("a body that is too large, and does not say so", func(t *testing.T) {
		c := g.dial(t)
		got := c.ask(t, false, rawHead("HTTP/1.1", "/workers", "Transfer-Encoding: chunked")+inChunks(strings.Repeat(" ", 1001), 100))
		require.Equal(t, http.StatusRequestEntityTooLarge, got.Status)
		require.Contains(t, got.Body, `"code":"request_body_too_large"`)
	})
	t.Run("a body whose end does not come", func(t *testing.T) {
		c := g.dial(t)
		c.post(t, "/workers", 100, `{"url":`)
		got := readRaw(t, c.in, false)
		require.Equal(t, http.StatusRequestTimeout, got.Status)
		require.Contains(t, got.Body, `"code":"request_body_stalled"`)
	})
	require.Zero(t, g.gateway.registry.Len())
}

// workers.md section 18
func TestAWorkersIDMustBeOne(t *testing.T) {
	g := start(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, id := range []string{"not-a-uuid", "0", "%00", someID + "0", "http:%2F%2Fw:1"} {
			requireAdminError(t, g.do(t, method, "/workers/"+id, ""), http.StatusBadRequest, "BAD_REQUEST", "(expected UUID)")
		}
		requireAdminError(t, g.do(t, method, "/workers/"+someID, ""), http.StatusNotFound, "WORKER_NOT_FOUND", "Worker "+someID+" not found")
	}
	requireAdminError(t, g.get(t, "/workers/x%22y"), http.StatusBadRequest, "BAD_REQUEST", `Invalid worker_id 'x"y'`)
}

// workers.md section 18: the list, in the order of registration, and its part that serves a model.
func TestWorkersAreListedByTimeOfRegistration(t *testing.T) {
	g := start(t, func(c *Config) { c.ModelAliases = []ModelAlias{{Alias: "short", Model: "b"}} })
	empty := g.get(t, "/workers")
	require.JSONEq(t, `{"workers":[],"total":0,"stats":{"prefill_count":0,"decode_count":0,"regular_count":0}}`, empty.Body)

	var urls []string
	for _, kind := range []struct{ model, role string }{{"a", "regular"}, {"b", "prefill"}, {"a", "decode"}, {"b", "regular"}, {"a", "regular"}} {
		e := engine.Start(t, engine.Config{Models: []string{kind.model}})
		urls = append(urls, e.URL)
		g.becomes(t, g.add(t, `{"url":"`+e.URL+`","worker_type":"`+kind.role+`"}`), "ready")
	}
	type stats struct {
		Prefill int `json:"prefill_count"`
		Decode  int `json:"decode_count"`
		Regular int `json:"regular_count"`
	}
	tests := []struct {
		name, query string
		want        []int
		stats       stats
	}{
		{"all of them", "", []int{0, 1, 2, 3, 4}, stats{1, 1, 3}},
		{"those of a model", "?model=a", []int{0, 2, 4}, stats{0, 1, 2}},
		{"those of an alias", "?x=y&model=short", []int{1, 3}, stats{1, 0, 1}},
		{"those of a model that nobody serves", "?model=c", nil, stats{}},
		{"all of them, when the model is left empty", "?model=", []int{0, 1, 2, 3, 4}, stats{1, 1, 3}},
		{"all of them, when the query is none", "?%zz", []int{0, 1, 2, 3, 4}, stats{1, 1, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list := decode[struct {
				Workers []shownWorker
				Total   int
				Stats   stats
			}](t, g.get(t, "/workers"+tt.query))
			var want, found []string
			for _, i := range tt.want {
				want = append(want, urls[i])
			}
			for _, w := range list.Workers {
				require.Nil(t, w.JobStatus, "told of one alone")
				found = append(found, w.URL)
			}
			require.Equal(t, want, found)
			require.Equal(t, len(want), list.Total)
			require.Equal(t, tt.stats, list.Stats)
		})
	}
}

// workers.md sections 17 and 18, capture.md section 3
func TestAWorkerDrainsBeforeItLeaves(t *testing.T) {
	release := make(chan struct{})
	p := startPuppet(t, func(a *act) {
		a.stream()
		a.chunk("data: 1\n\n")
		<-release
		a.chunk("data: [DONE]\n\n")
		a.done()
	})
	g := start(t, func(c *Config) { c.DisableRetries, c.SSEKeepalive = true, 0 })
	id := g.add(t, `{"url":"`+p.URL+`","health":{"drain_settle_secs":3600}}`)
	g.becomes(t, id, "ready")
	stream := g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)

	left := g.do(t, http.MethodDelete, "/workers/"+id, "")
	require.Equal(t, http.StatusAccepted, left.StatusCode)
	require.JSONEq(t, `{"status":"accepted","worker_id":"`+id+`","message":"Worker removal queued for background processing"}`, left.Body)
	draining := g.becomes(t, id, "draining")
	require.False(t, draining.IsHealthy)
	require.Equal(t, 1, draining.Load)
	require.Equal(t, "RemoveWorker", draining.JobStatus.JobType)
	require.Equal(t, "processing", draining.JobStatus.Status)

	requireJSONError(t, g.post(t, chatPath, chat), http.StatusServiceUnavailable, "no_available_workers")
	require.Equal(t, http.StatusServiceUnavailable, g.get(t, "/readiness").StatusCode)
	require.Contains(t, g.get(t, "/v1/models").Body, "m1", "it is registered still")
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode, "once more changes nothing")
	g.becomes(t, id, "draining")

	close(release)
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(rest), "what is in flight ends well")
	g.quiet(t)
}

// workers.md section 17
func TestAWorkerLeavesAtOnceWhenThereIsNothingToWaitFor(t *testing.T) {
	t.Parallel() // it waits
	tests := []struct {
		name, settle string
		status       workers.Status
	}{
		{"its window is 0", "0", workers.Ready},
		{"it is not ready", "3600", workers.NotReady},
		{"it has failed", "3600", workers.Failed},
		{"its window is over", "1", workers.Ready},
	}
	g := start(t, func(c *Config) { c.DrainSettle = 0 })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			id := g.add(t, `{"url":"`+e.URL+`","health":{"drain_settle_secs":`+tt.settle+`}}`)
			g.becomes(t, id, "ready")
			g.gateway.registry.All()[0].SetStatus(tt.status)
			require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
			g.becomes(t, id, "")
			require.Zero(t, g.gateway.registry.Len())
			requireAdminError(t, g.do(t, http.MethodDelete, "/workers/"+id, ""), http.StatusNotFound, "WORKER_NOT_FOUND", id)
			require.NotEqual(t, id, g.add(t, `{"url":"`+e.URL+`"}`), "it may come back, as another one")
			g.serving(t, 1)
			require.NoError(t, g.gateway.enroller.Remove(g.gateway.registry.All()[0].ID()))
			require.Eventually(t, func() bool { return g.gateway.registry.Len() == 0 }, patience, 5*time.Millisecond)
		})
	}
}

// workers.md sections 11 and 18: a stopped queue. A gateway that ends takes no orders for its workers any more, and says so.
func TestWorkersAreNotChangedDuringShutdown(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	g.gateway.enroller.Close()
	const message = "the gateway is shutting down"
	requireAdminError(t, g.post(t, "/workers", `{"url":"http://127.0.0.1:1"}`), http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", message)
	id := g.gateway.registry.All()[0].ID().String()
	requireAdminError(t, g.do(t, http.MethodDelete, "/workers/"+id, ""), http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", message)
	requireAdminError(t, g.do(t, http.MethodPatch, "/workers/"+id, `{"priority":1}`), http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", message)
	requireAdminError(t, g.do(t, http.MethodPut, "/workers/"+id, `{"url":"`+e.URL+`"}`), http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", message)
	require.Equal(t, "ready", g.becomes(t, id, "ready").Status)
}

// workers.md section 2: workers that are added by the API do not inherit --api-key; one WARN says so.
func TestAWorkerWithoutAKeyIsWarnedOf(t *testing.T) {
	const warning = "a worker was added without an api_key"
	tests := []struct {
		name, gateway, worker string
		warnings              int
	}{
		{"the gateway has a key and the worker none", "k1", "", 1},
		{"both have one", "k1", "k2", 0},
		{"nobody has one", "", "", 0},
		{"the worker alone has one", "", "k2", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			g := start(t, func(c *Config) {
				if c.LogJSON = true; tt.gateway != "" {
					c.APIKey = &tt.gateway
				}
			})
			got := g.post(t, "/workers", `{"url":"`+e.URL+`","api_key":"`+tt.worker+`"}`, "Authorization", "Bearer "+tt.gateway)
			require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
			g.serving(t, 1)
			warnings := 0
			for _, line := range g.Log.parsed(t) {
				if strings.HasPrefix(line.Message, warning) {
					require.Equal(t, "WARN", line.Level)
					require.Equal(t, e.URL, line.Worker)
					warnings++
				}
			}
			require.Equal(t, tt.warnings, warnings)
			require.Equal(t, tt.worker != "", g.only(t).Bearer() == "Bearer "+tt.worker, "it has its own key or none")
		})
	}
}

// workers.md section 3: every --model-alias is on the card of its model.
func TestConfiguredAliasesAreShown(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.ModelAliases = []ModelAlias{{Alias: "gold", Model: "m1"}} }, e)
	page := decode[struct {
		Workers []struct {
			Models []struct {
				ID      string   `json:"id"`
				Aliases []string `json:"aliases"`
			} `json:"models"`
		} `json:"workers"`
	}](t, g.get(t, "/workers?model=gold"))
	require.Len(t, page.Workers, 1)
	require.Equal(t, "m1", page.Workers[0].Models[0].ID)
	require.Equal(t, []string{"gold"}, page.Workers[0].Models[0].Aliases)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, strings.Replace(chat, "m1", "gold", 1)).StatusCode)
}

// workers.md section 14: a gateway that is registered behind another one must not be taken for an engine.
func TestAGatewayDoesNotAnswerLikeAnEngine(t *testing.T) {
	g := start(t, nil, engine.Start(t, engine.Config{}))
	for _, path := range []string{"/version", "/server_info", "/model_info"} {
		requireJSONError(t, g.get(t, path), http.StatusNotFound, "unknown_url")
	}
}
