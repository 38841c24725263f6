package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// commanded are the requests of a command that an engine got.
func commanded(e *engine.Running, path string) (found []engine.Request) {
	for _, r := range posts(e) {
		if r.Path == path {
			found = append(found, r)
		}
	}
	return found
}

// http-dataplane.md section 2.3, workers.md section 18, capture.md section 3
func TestFlushCacheTellsWhoHasAndWhoHasNot(t *testing.T) {
	w1, w2, w3 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	refuses := engine.Fault{Path: "/flush_cache", Status: 500, Body: "the engine's own words"}
	hangsUp := engine.Fault{Path: "/flush_cache", Close: true}
	g := start(t, nil)
	for _, w := range []*engine.Running{w1, w2, w3} {
		g.becomes(t, g.add(t, `{"url":"`+w.URL+`"}`), "ready") // one by one: the answer is in their order
	}
	counts := func(flushed int) string {
		return fmt.Sprintf(`"workers_flushed":%d,"total_http_workers":3,"total_grpc_workers":0,"total_zmq_workers_skipped":0,"total_workers":3`, flushed)
	}
	failed := func(w *engine.Running, why string) string {
		return `{"worker":"` + w.URL + `","error":"flush_cache failed for worker ` + w.URL + `/flush_cache: ` + why + `"}`
	}
	tests := []struct {
		name   string
		faults []engine.Fault // of w1, w2, w3; an empty one is none
		status int
		body   string
	}{
		{
			"all have", make([]engine.Fault, 3), 200,
			`{"status":"success","message":"Successfully flushed cache on all 3 workers",` + counts(3) + `}`,
		},
		{
			"one has not",
			[]engine.Fault{{}, refuses, {}},
			206,
			`{"status":"partial_success","message":"Cache flush: 2 succeeded, 1 failed",` + counts(2) +
				`,"successful":["` + w1.URL + `","` + w3.URL + `"],"failed":[` + failed(w2, "HTTP 500 Internal Server Error") + `]}`,
		},
		{
			"none has",
			[]engine.Fault{refuses, hangsUp, refuses},
			206,
			`{"status":"partial_success","message":"Cache flush: 0 succeeded, 3 failed",` + counts(0) + `,"failed":[` +
				failed(w1, "HTTP 500 Internal Server Error") + `,` + failed(w2, "the engine could not be reached, or broke off its answer") + `,` +
				failed(w3, "HTTP 500 Internal Server Error") + `]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, w := range []*engine.Running{w1, w2, w3} {
				w.SetFaults(tt.faults[i])
				if tt.faults[i].Path == "" {
					w.SetFaults()
				}
				w.ClearRequests()
			}
			got := g.sent(t, http.MethodPost, "/flush_cache", "")
			require.Equal(t, tt.status, got.StatusCode)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.Equal(t, tt.body, got.Body)
			for i, w := range []*engine.Running{w1, w2, w3} {
				if !tt.faults[i].Close {
					require.Len(t, commanded(w, "/flush_cache"), 1, "each is asked once")
				}
			}
		})
	}
}

// http-dataplane.md section 2.3: with nobody to ask, all have done it.
func TestFlushCacheWithoutAWorkerSucceeds(t *testing.T) {
	got := start(t, nil).sent(t, http.MethodPost, "/flush_cache", "")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Equal(t, `{"status":"success","message":"No workers available for cache flush","workers_flushed":0,"total_http_workers":0,`+
		`"total_grpc_workers":0,"total_zmq_workers_skipped":0,"total_workers":0}`, got.Body)
}

// workers.md section 18: each base URL once, with the worker's key (DECISIONS.md row 39), ready or not, and ZMQ workers are skipped.
func TestFlushCacheGoesToEnginesAndNotToRanks(t *testing.T) {
	const key = "the-workers-own-key"
	w1, w2 := engine.Start(t, engine.Config{APIKey: key}), engine.Start(t, engine.Config{})
	w2.SetFaults(engine.Fault{Path: "/flush_cache", Status: 500})
	g := start(t, nil)
	g.register(t, w1.URL+"@0", key, workers.Ready)
	g.register(t, w1.URL+"@1", key, workers.Ready)
	g.register(t, w2.URL, "", workers.NotReady)
	g.register(t, "ipc:///tmp/engine", "", workers.Ready)
	got := g.sent(t, http.MethodPost, "/flush_cache", "", "Authorization", "Bearer of-the-client")
	require.Equal(t, http.StatusPartialContent, got.StatusCode, got.Body)
	require.Contains(t, got.Body, `"workers_flushed":1,"total_http_workers":2,"total_grpc_workers":0,"total_zmq_workers_skipped":1,"total_workers":3`)
	require.Contains(t, got.Body, `"successful":["`+w1.URL+`"],"failed":[{"worker":"`+w2.URL+`"`)
	require.Len(t, commanded(w1, "/flush_cache"), 1)
	require.Equal(t, []string{"Bearer " + key}, commanded(w1, "/flush_cache")[0].Values("Authorization"))
	require.Empty(t, commanded(w2, "/flush_cache")[0].Values("Authorization"), "the client's credential is not the worker's")
	require.NotContains(t, got.Body, key)
	require.NotContains(t, g.Log.String(), key)
}

// register puts a worker into the registry as it is, without a probe.
func (g *running) register(t testing.TB, url, key string, status workers.Status) *workers.Worker {
	t.Helper()
	spec := workers.NewSpec(url)
	spec.APIKey = key
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(status)
	require.NoError(t, g.gateway.registry.Add(w))
	return w
}

// http-dataplane.md section 2.3: 32 at once.
func TestAFanoutAsksSoManyAtOnceAndNoMore(t *testing.T) {
	const all = 100
	var engines []*workers.Worker
	for i := range all {
		w, err := workers.New(workers.NewSpec(fmt.Sprintf("http://127.0.0.1:%d", i+1)), workers.DefaultSettings())
		require.NoError(t, err)
		engines = append(engines, w)
	}
	var now atomic.Int64
	open := make(chan struct{})
	done := make(chan []outcome[string])
	go func() {
		done <- askAll(engines, func(w *workers.Worker) (string, error) {
			now.Add(1)
			<-open
			return w.URL(), nil
		})
	}()
	require.Eventually(t, func() bool { return now.Load() >= fanoutLimit }, patience, time.Millisecond)
	for range 1000 {
		runtime.Gosched() // whoever else might be let in has every chance
	}
	require.EqualValues(t, fanoutLimit, now.Load())
	close(open)
	outcomes := <-done
	require.Len(t, outcomes, all)
	for i, o := range outcomes {
		require.Equal(t, engines[i], o.engine)
		require.Equal(t, engines[i].URL(), o.answer, "in the order of the engines")
	}
}

// http-dataplane.md section 2.3: an engine that does not answer is a failure when its time is over.
func TestWhatAnOperatorIsToldOfAFailure(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{statusError(503), "HTTP 503 Service Unavailable"},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), "no answer within 45 seconds"},
		{&net.OpError{Op: "dial", Err: io.EOF}, "the engine could not be reached, or broke off its answer"},
	} {
		require.Equal(t, tt.want, told(tt.err, flushTimeout))
	}
	silent := engine.Start(t, engine.Config{})
	silent.SetFaults(engine.Fault{Path: "/flush_cache", HangHeadMillis: -1})
	g := start(t, nil)
	w := g.register(t, silent.URL, "", workers.Ready)
	err := g.gateway.ask(w, errand{http.MethodPost, "/flush_cache", nil, time.Millisecond}, unread)
	require.Equal(t, "no answer within 45 seconds", told(err, flushTimeout))
}

// http-dataplane.md section 2.3, workers.md section 18, capture.md section 3
func TestProfilesAreStartedAndStopped(t *testing.T) {
	w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	g := start(t, nil)
	ask := func(path, body string) response { return g.do(t, http.MethodPost, path, body) }
	require.Equal(t, `{"status":"error","message":"No workers available for profiling","workers_profiled":0,"total_workers":0}`, ask("/start_profile", "").Body)
	for _, w := range []*engine.Running{w1, w2} {
		g.becomes(t, g.add(t, `{"url":"`+w.URL+`"}`), "ready")
	}
	tests := []struct {
		name, path, body string
		status           int
		want             string
		sent             []string // bodies that w1 and w2 got; "" is that they were not asked
	}{
		{
			"without a body all are asked", "/start_profile", "", 200,
			`{"status":"success","message":"Successfully started profiling on all 2 workers","workers_profiled":2,"total_workers":2}`,
			[]string{"{}", "{}"},
		},
		{
			"stopped", "/stop_profile", "", 200,
			`{"status":"success","message":"Successfully stopped profiling on all 2 workers","workers_profiled":2,"total_workers":2}`,
			[]string{"{}", "{}"},
		},
		{
			"the fields go to the engines", "/start_profile", `{"output_dir":"/tmp","num_steps":3,"x":1.0}`, 200, `"workers_profiled":2`,
			[]string{`{"num_steps":3,"output_dir":"/tmp","x":1.0}`, `{"num_steps":3,"output_dir":"/tmp","x":1.0}`},
		},
		{"one by its url", "/start_profile", `{"url":"` + w2.URL + `"}`, 200, `"workers_profiled":1,"total_workers":1`, []string{"", "{}"}},
		{
			"a url that nobody has", "/start_profile", `{"url":"http://nope:1"}`, 404,
			`{"status":"error","message":"No worker matching url 'http://nope:1'","workers_profiled":0,"total_workers":0}`,
			[]string{"", ""},
		},
		{"no JSON", "/start_profile", `{`, 400, `"code":"BAD_REQUEST"`, []string{"", ""}},
		{"null", "/start_profile", `null`, 400, `must be a JSON object`, []string{"", ""}},
		{"a url that is none", "/stop_profile", `{"url":1}`, 400, `url must be a string`, []string{"", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w1.ClearRequests()
			w2.ClearRequests()
			got := ask(tt.path, tt.body)
			require.Equal(t, tt.status, got.StatusCode, got.Body)
			require.Contains(t, got.Body, tt.want)
			for i, w := range []*engine.Running{w1, w2} {
				seen := commanded(w, tt.path)
				if tt.sent[i] == "" {
					require.Empty(t, seen)
					continue
				}
				require.Len(t, seen, 1)
				require.Equal(t, tt.sent[i], string(seen[0].Body))
				require.Equal(t, []string{"application/json"}, seen[0].Values("Content-Type"))
			}
		})
	}
	t.Run("one cannot", func(t *testing.T) {
		w1.SetFaults(engine.Fault{Path: "/stop_profile", Status: 400})
		got := ask("/stop_profile", "")
		require.Equal(t, http.StatusPartialContent, got.StatusCode)
		require.Equal(t, `{"status":"partial_success","message":"Profiling: stopped on 1, failed on 1","workers_profiled":1,"total_workers":2,"successful":["`+
			w2.URL+`"],"failed":[{"worker":"`+w1.URL+`","error":"stop_profile failed for worker `+w1.URL+`/stop_profile: HTTP 400 Bad Request"}]}`, got.Body)
	})
	t.Run("a body of another type", func(t *testing.T) {
		got := g.sent(t, http.MethodPost, "/start_profile", "url=x", "Content-Type", "text/plain")
		requireAdminError(t, got, http.StatusBadRequest, "BAD_REQUEST", "Missing Content-Type")
	})
}
