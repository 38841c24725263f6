package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// numbers is every counter and gauge of the page by its series (see seriesOf); of a histogram its count.
func (g *running) numbers(t testing.TB) (counters, gauges map[string]float64) {
	t.Helper()
	counters, gauges = map[string]float64{}, map[string]float64{}
	for name, family := range g.page(t) {
		for _, m := range family.Metric {
			one := &dto.MetricFamily{Metric: []*dto.Metric{m}}
			for series := range seriesOf(map[string]*dto.MetricFamily{name: one}) {
				switch {
				case m.Gauge != nil:
					gauges[series] = m.Gauge.GetValue()
				case m.Histogram != nil:
					counters[series] = float64(m.Histogram.GetSampleCount())
				default:
					counters[series] = m.Counter.GetValue()
				}
			}
		}
	}
	return counters, gauges
}

// of is a gauge of a worker; -1 if there is none.
func (g *running) of(t testing.TB, name, url string) float64 {
	t.Helper()
	_, gauges := g.numbers(t)
	if v, there := gauges[fmt.Sprintf("%s worker=%q", name, url)]; there {
		return v
	}
	return -1
}

// named are the series of a worker.
func (g *running) named(t testing.TB, url string) (found []string) {
	t.Helper()
	for series := range seriesOf(g.page(t)) {
		if strings.Contains(series, fmt.Sprintf(" worker=%q", url)) {
			found = append(found, series)
		}
	}
	return found
}

// requireOnward: no counter has gone backwards but those of a worker that was taken out.
func requireOnward(t testing.TB, before, after map[string]float64, gone string) {
	t.Helper()
	for series, was := range before {
		if !strings.Contains(series, fmt.Sprintf(" worker=%q", gone)) {
			require.GreaterOrEqual(t, after[series], was, series)
		}
	}
}

// openStream begins a stream on a worker that never ends by itself. end makes its client leave, and waits until nobody has it in
// flight.
func (g *running) openStream(t testing.TB, on *engine.Running) (end func()) {
	t.Helper()
	on.SetFaults(engine.Fault{HangAfterEvents: new(2)})
	ctx, leave := context.WithCancel(context.Background())
	t.Cleanup(leave)
	for { // until it is this worker's turn
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+chatPath, strings.NewReader(chats))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		if resp.Header.Get("X-Smg-Routed-Worker-Id") == on.URL {
			on.SetFaults()
			return func() {
				leave()
				resp.Body.Close()
				g.quiet(t)
			}
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// Case C36 (series of workers that are gone), telemetry.md section 2, DECISIONS.md row 13: while it drains a worker's series are there
// and true; when it is gone nothing is left of them, and a stream that ends late brings nothing back; added anew it begins afresh.
func TestC36SeriesOfAWorkerThatIsGone(t *testing.T) {
	t.Parallel() // it waits
	tests := []struct {
		name    string
		takeOut func(t *testing.T, g *running, w2 *engine.Running, id string)
		drains  bool
		late    bool // the stream ends when the worker has gone
	}{
		{"deleted, and the stream ends while it drains", deleteWorker, true, false},
		{"deleted, and the stream ends late", deleteWorker, true, true},
		{"removed since its probes fail", func(_ *testing.T, _ *running, w2 *engine.Running, _ string) {
			w2.SetFaults(engine.Fault{Path: "/health", Status: http.StatusServiceUnavailable})
		}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, w2, id := twoMeasured(t)
			end := g.openStream(t, w2)
			before, _ := g.numbers(t)
			tt.takeOut(t, g, w2, id)
			if tt.drains {
				g.until(t, func() bool { return g.of(t, "smg_worker_health", w2.URL) == 0 })
				require.Equal(t, 1.0, g.of(t, "smg_worker_requests_active", w2.URL), "it is there as long as the worker is")
			}
			if !tt.late {
				end()
				end = func() {}
			}
			g.until(t, func() bool { return len(g.named(t, w2.URL)) == 0 })
			end()
			require.Empty(t, g.named(t, w2.URL), "a late end brings nothing back")
			require.Equal(t, 1.0, g.pooled(t))
			after, _ := g.numbers(t)
			requireOnward(t, before, after, w2.URL)

			w2.SetFaults()
			g.becomes(t, g.add(t, `{"url":"`+w2.URL+`"}`), "ready")
			require.Equal(t, 2.0, g.pooled(t))
			for name, fresh := range map[string]float64{
				"smg_worker_health": 1, "smg_worker_cb_state": 0, "smg_worker_requests_active": 0,
				"smg_worker_cb_consecutive_failures": 0, "smg_worker_cb_consecutive_successes": 0,
			} {
				require.Equal(t, fresh, g.of(t, name, w2.URL), name)
			}
			again, _ := g.numbers(t)
			requireOnward(t, after, again, w2.URL)
			for series, v := range again {
				if strings.Contains(series, fmt.Sprintf(" worker=%q", w2.URL)) {
					require.Zero(t, v, series)
				}
			}
		})
	}
}

func deleteWorker(t *testing.T, g *running, _ *engine.Running, id string) {
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+id, "").StatusCode)
}

// twoMeasured is a gateway in front of two workers that have served, failed and reported. The second is w2, with its id.
func twoMeasured(t *testing.T) (g *running, w2 *engine.Running, id string) {
	t.Helper()
	w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	g = start(t, func(c *Config) {
		remove := true
		c.DrainSettle, c.LoadMonitorInterval, c.HealthCheckInterval, c.HealthFailureThreshold = 2, 1, 1, 1
		c.RemoveUnhealthyWorkers = &remove
	}, w1, w2)
	g.becoming(t, 2)
	w2.SetFaults(engine.Fault{Status: 500, Count: 1})
	for range 6 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	g.until(t, func() bool { return strings.Contains(fmt.Sprint(g.named(t, w2.URL)), "smg_engine_running_requests") })
	require.Equal(t, 2.0, g.pooled(t))
	all := fmt.Sprint(g.named(t, w2.URL))
	for _, family := range []string{
		"smg_worker_health", "smg_worker_cb_state", "smg_worker_cb_outcomes_total", "smg_worker_requests_total", "smg_worker_requests_active",
	} {
		require.Contains(t, all, family)
	}
	return g, w2, g.worker(t, w2.URL).ID().String()
}

// becoming waits until so many workers are ready.
func (g *running) becoming(t testing.TB, n int) {
	t.Helper()
	g.until(t, func() bool {
		ready := 0
		for _, w := range g.gateway.registry.All() {
			if w.Status() == workers.Ready {
				ready++
			}
		}
		return ready == n
	})
}

// pooled is what smg_worker_pool_size comes to.
func (g *running) pooled(t testing.TB) (sum float64) {
	t.Helper()
	_, gauges := g.numbers(t)
	for series, v := range gauges {
		if strings.HasPrefix(series, "smg_worker_pool_size ") {
			sum += v
		}
	}
	return sum
}

// C36: a worker that is replaced is the same one to whoever watches: its gauges stay, each once, and its counters go on.
func TestC36SeriesOfAWorkerThatIsReplaced(t *testing.T) {
	t.Parallel() // it waits
	g, w2, id := twoMeasured(t)
	end := g.openStream(t, w2)
	before, _ := g.numbers(t)
	got := g.do(t, http.MethodPut, "/workers/"+id, `{"url":"`+w2.URL+`","labels":{"tier":"gold"}}`)
	require.Equal(t, http.StatusAccepted, got.StatusCode, got.Body)
	require.Eventually(t, func() bool {
		require.Equal(t, 2.0, g.pooled(t))
		require.NotEqual(t, -1.0, g.of(t, "smg_worker_health", w2.URL))
		w := decode[shownWorker](t, g.get(t, "/workers/"+id))
		return w.Labels["tier"] == "gold" && w.Status == "ready" && w.JobStatus == nil
	}, patience, 5*time.Millisecond)
	after, _ := g.numbers(t)
	requireOnward(t, before, after, "")
	require.Equal(t, 1.0, g.of(t, "smg_worker_requests_active", w2.URL), "the stream is still its own")
	end()
	require.Zero(t, g.of(t, "smg_worker_requests_active", w2.URL))
}
