package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// reports makes an engine answer /v1/loads with one rank of these fields.
func reports(e *engine.Running, fields string) {
	e.SetFaults(engine.Fault{Path: "/v1/loads", Body: engine.Text(`{"timestamp":"t","loads":[{"dp_rank":0,` + fields + `}]}`)})
}

// often polls at the shortest interval.
func often(c *Config) { c.LoadMonitorInterval = 1 }

// polled tells whether an engine was asked for its load.
func polled(e *engine.Running) bool {
	for _, r := range e.Requests() {
		if r.Path == "/v1/loads" {
			return true
		}
	}
	return false
}

// load-signals.md, section 5, Check
func TestLoadsAreShownToOperators(t *testing.T) {
	w1, w2, dark := engine.Start(t, engine.Config{Models: []string{"m1"}}), engine.Start(t, engine.Config{Models: []string{"m2"}}), engine.Start(t, engine.Config{})
	reports(w1, `"num_running_reqs":12,"num_waiting_reqs":3,"token_usage":0.37,"gen_throughput":1850.5,"utilization":0.41,"disaggregation":{"mode":"decode","decode_transfer_queue_reqs":4}`)
	reports(w2, `"num_running_reqs":9,"num_waiting_reqs":0,"token_usage":0.23,"gen_throughput":1420.0,"utilization":0.3,"cache_hit_rate":57`)
	dark.SetFaults(engine.Fault{Path: "/v1/loads", Status: 500}, engine.Fault{Path: "/metrics", Status: 500})
	g := start(t, often)
	require.Contains(t, g.get(t, "/loads").Body, `"version":"smg-`+Version+`","dp_rank_count":0,"loads":[]}`, "no aggregate of nothing")
	for _, e := range []*engine.Running{w1, w2, dark} {
		g.enrol(t, e.URL)
		g.until(t, func() bool { return g.gateway.registry.ByURL(e.URL) != nil }) // the page is in the order of registration
	}
	var page loadPage
	g.until(t, func() bool {
		page = loadPage{}
		require.NoError(t, json.Unmarshal([]byte(g.get(t, "/loads").Body), &page))
		return page.Ranks == 2
	})
	require.Equal(t, []string{w1.URL, w2.URL}, []string{page.Loads[0].Worker, page.Loads[1].Worker})
	require.Equal(t, "regular", page.Loads[0].Type)
	require.EqualValues(t, 12, page.Loads[0].Running)
	require.Equal(t, loadAggregate{21, 3, 24, 0.3, 1635.25, 0.355}, *page.Aggregate)
	_, err := time.Parse(time.RFC3339, page.Timestamp)
	require.NoError(t, err)

	admin := g.get(t, "/get_loads?model=m2")
	require.Equal(t, http.StatusOK, admin.StatusCode)
	require.Contains(t, admin.Body, w2.URL)
	require.NotContains(t, admin.Body, w1.URL)

	shown := g.get(t, "/workers").Body
	require.Contains(t, shown, `"engine_load":{"timestamp":"t","dp_rank_count":1,"loads":[{"dp_rank":0,"num_running_reqs":12,`)
	require.Equal(t, 2, strings.Count(shown, `"engine_load"`), "absent without a report")
	require.Contains(t, g.get(t, "/workers/"+g.worker(t, w1.URL).ID().String()).Body, `"engine_load":{`)
	g.requireLoadSeries(t, w1, w2, dark)
}

// requireLoadSeries: telemetry.md, sections 4.4 and 5, of the workers of the test above; one goes away.
func (g *running) requireLoadSeries(t *testing.T, w1, w2, dark *engine.Running) {
	t.Helper()
	page := g.metricsText(t)
	require.Contains(t, page, fmt.Sprintf("smg_engine_running_requests{dp_rank=\"0\",model=\"m1\",worker=%q} 12", w1.URL))
	require.Contains(t, page, fmt.Sprintf("smg_engine_token_usage{dp_rank=\"0\",model=\"m2\",worker=%q} 0.23", w2.URL))
	require.Contains(t, page, fmt.Sprintf("smg_engine_pd_decode_queue_reqs{dp_rank=\"0\",role=\"decode\",worker=%q} 4", w1.URL))
	require.NotContains(t, page, "smg_engine_cache_hit_rate{", "nobody sends one that can be")
	require.NotContains(t, page, fmt.Sprintf("smg_engine_running_requests{dp_rank=\"0\",model=\"m1\",worker=%q}", dark.URL))
	require.Contains(t, page, fmt.Sprintf("smg_load_report_age_seconds{worker=%q}", w1.URL))
	require.NotContains(t, page, `smg_load_polls_total{connection_mode="http",result="ok"} 0`)
	require.Contains(t, page, `smg_load_numbers_ignored_total{field="cache_hit_rate"}`)
	g.until(t, func() bool { // the dark one is asked when its turn comes
		return !strings.Contains(g.metricsText(t), `smg_load_polls_total{connection_mode="http",result="error"} 0`)
	})

	w2.SetFaults(engine.Fault{Path: "/v1/loads", Status: 500}, engine.Fault{Path: "/metrics", Status: 500})
	g.until(t, func() bool { return !strings.Contains(g.metricsText(t), fmt.Sprintf("model=\"m2\",worker=%q", w2.URL)) })
	require.NotContains(t, g.get(t, "/loads").Body, w2.URL)
}

// metricsText is the metrics page as it is served.
func (g *running) metricsText(t testing.TB) string {
	t.Helper()
	resp, err := http.Get(g.Metrics)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// load-signals.md, section 4.3, first Check
func TestWhenEnginesArePolled(t *testing.T) {
	waiting := int64(8)
	tests := []struct {
		name   string
		policy string
		change func(c *Config)
		polled bool
	}{
		{"by default, whatever the policy", "random", func(*Config) {}, true},
		{"not if it is disabled", "random", func(c *Config) { c.DisableLoadMonitoring = true }, false},
		{"for the metrics", "random", func(c *Config) { c.DisableLoadMonitoring, c.EngineMetrics = true, true }, true},
		{"for the overload protection", "random", func(c *Config) { c.DisableLoadMonitoring, c.WorkerOverloadProtection = true, true }, true},
		{"for one of its ceilings", "random", func(c *Config) { c.DisableLoadMonitoring, c.WorkerOverloadWaiting = true, &waiting }, true},
		{"for a policy that reads loads", "power_of_two", func(c *Config) { c.DisableLoadMonitoring = true }, true},
		{"for the default policy, which does", "cache_aware", func(c *Config) { c.DisableLoadMonitoring = true }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
			g := start(t, func(c *Config) {
				often(c)
				c.Policy = tt.policy
				tt.change(c)
			}, w1, w2)
			g.serving(t, 2)
			if tt.polled {
				g.until(t, func() bool { return polled(w1) && polled(w2) })
				return
			}
			require.False(t, g.gateway.loadsWanted(), "what the monitor makes of that, its own tests say")
			require.False(t, g.gateway.cfg.Ceilings().On())
		})
	}
}

// registers waits until n workers are ready, overloaded or not.
func (g *running) registers(t *testing.T, n int) {
	t.Helper()
	g.until(t, func() bool {
		pool := g.gateway.registry.Pool("m1", workers.Regular, workers.HTTP)
		return pool.Len() == n && pool.NotReady() == 0
	})
}

// load-signals.md, section 6: two vetoed: shed; reports fall: served. DECISIONS 44: or let through.
func TestOverloadProtection(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		t.Run(fmt.Sprintf("fallback %v", fallback), func(t *testing.T) {
			t.Parallel()
			w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
			reports(w1, `"num_running_reqs":5,"num_waiting_reqs":10000,"token_usage":0.95`)
			reports(w2, `"num_running_reqs":4,"num_waiting_reqs":9,"token_usage":0.9`)
			g := start(t, func(c *Config) {
				often(c)
				c.WorkerOverloadProtection, c.WorkerOverloadFallback = true, fallback
			}, w1, w2)
			g.registers(t, 2)
			over := func(n int) func() bool {
				return func() bool {
					return strings.Contains(g.metricsText(t), fmt.Sprintf("smg_workers_overloaded{model=\"m1\"} %d\n", n))
				}
			}
			g.until(t, over(2))
			got := g.post(t, chatPath, chat)
			if fallback {
				require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
				require.Equal(t, w2.URL, got.Header.Get("X-Smg-Routed-Worker-Id"), "the least loaded")
				require.Contains(t, g.metricsText(t), `smg_worker_overload_fallback_total{stage="selection"} 1`)
			} else {
				requireShed(t, got)
				page := g.metricsText(t)
				require.Contains(t, page, `smg_worker_overload_shed_total{stage="selection"} 1`)
				require.Contains(t, page, `smg_http_responses_total{error_code="worker_overload_protection_shed",path="`+chatPath+`",status_code="503"} 1`)
				require.Empty(t, append(posts(w1), posts(w2)...))
				require.Zero(t, g.retries(t))
			}

			reports(w1, `"num_running_reqs":5,"num_waiting_reqs":10000,"token_usage":0.1`) // no ceiling of what waits
			g.until(t, over(1))
			for range 4 {
				got = g.post(t, chatPath, chat)
				require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
				require.Equal(t, w1.URL, got.Header.Get("X-Smg-Routed-Worker-Id"))
			}
			w2.SetFaults(engine.Fault{Path: "/v1/loads", HangHeadMillis: -1}, engine.Fault{Path: "/metrics", Close: true})
			g.until(t, over(0)) // a poll that fails clears
		})
	}
}

func requireShed(t *testing.T, got response) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, "1", got.Header.Get("Retry-After"), "the interval")
	require.Equal(t, "worker_overload_protection_shed", got.Header.Get("X-Smg-Error-Code"))
	require.Contains(t, got.Body, "All workers for model 'm1' are overloaded")
}

// load-signals.md, section 6: removing a vetoed worker drops the gauge by 1
func TestAnOverloadedWorkerIsRemoved(t *testing.T) {
	w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	for _, w := range []*engine.Running{w1, w2} {
		reports(w, `"num_waiting_reqs":8`)
	}
	waiting := int64(8)
	g := start(t, func(c *Config) {
		often(c)
		c.WorkerOverloadWaiting, c.DrainSettle = &waiting, 0
	}, w1, w2)
	g.registers(t, 2)
	gauge := func(n int) func() bool {
		return func() bool {
			return strings.Contains(g.metricsText(t), fmt.Sprintf("smg_workers_overloaded{model=\"m1\"} %d\n", n))
		}
	}
	g.until(t, gauge(2))
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+g.worker(t, w1.URL).ID().String(), "").StatusCode)
	g.until(t, gauge(1))
	require.NotContains(t, g.metricsText(t), fmt.Sprintf("worker=%q", w1.URL))
}

// workers.md, section 3: a ceiling out of range fails the registration, after the 202
func TestCeilingsOfAWorkerAreChecked(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil)
	for _, block := range []string{`{"waiting_requests":0}`, `{"token_usage":0}`, `{"token_usage":1.5}`} {
		id := g.add(t, `{"url":"`+e.URL+`","overload":`+block+`}`)
		g.until(t, func() bool { return g.get(t, "/workers/"+id).StatusCode == http.StatusNotFound })
		require.Zero(t, g.gateway.registry.Len())
	}
}
