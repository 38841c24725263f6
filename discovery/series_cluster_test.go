package discovery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// numbers are all series of the gateway, as they are written on its page.
func (s *scene) numbers(t *testing.T) map[string]float64 {
	t.Helper()
	page := httptest.NewRecorder()
	s.gateway.Metrics().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	found := map[string]float64{}
	for line := range strings.Lines(page.Body.String()) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			require.NoError(t, err, line)
			found[line[:at]] = value
		}
	}
	return found
}

// about are the series that name a worker.
func about(url string, all map[string]float64) map[string]float64 {
	found := map[string]float64{}
	for series, value := range all {
		if strings.Contains(series, `worker="`+url+`"`) {
			found[series] = value
		}
	}
	return found
}

// pooled is the size of all pools.
func pooled(all map[string]float64) (sum float64) {
	for series, value := range all {
		if strings.HasPrefix(series, "smg_worker_pool_size{") {
			sum += value
		}
	}
	return sum
}

// Case C36 (series of workers that are gone), with pods: while its worker drains they are there and true; then nothing is left of
// them, and a stream that ends late brings nothing back; a pod that comes back begins afresh.
func TestC36SeriesOfAPodThatIsGone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		late bool // the stream ends when the worker has gone
	}{
		{"the stream ends while it drains", false},
		{"the stream ends late", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := started(t, func(cfg *server.Config) { cfg.LoadMonitorInterval, cfg.DrainSettle = 1, 6 }) // the drain has to be seen
			e := clustertest.StartEngine(t, engine.Config{Keep: 100})
			p := s.pods.Run(t, pod("p", e.IP))
			want := map[string]string{e.URL(): p.UID}
			s.serving(t, want)
			leave := s.endless(t, e)
			other, oe := s.run(t, "other")
			want[oe.URL()] = other.UID
			s.serving(t, want)
			gauge := func(name string) (value float64, there bool) {
				value, there = s.numbers(t)[name+`{worker="`+e.URL()+`"}`]
				return value, there
			}
			s.until(t, "its load is known", func() bool {
				return strings.Contains(fmt.Sprint(about(e.URL(), s.numbers(t))), "smg_engine_running_requests")
			})
			before := s.numbers(t)
			require.Equal(t, 2.0, pooled(before))

			s.pods.Terminate(t, "p", time.Minute)
			s.until(t, "the worker is seen to drain", func() bool { v, there := gauge("smg_worker_health"); return there && v == 0 })
			if active, there := gauge("smg_worker_requests_active"); there { // else a crowded machine was late
				require.Equal(t, 1.0, active)
			}
			if !tt.late {
				leave()
			}
			s.until(t, "nothing is left of it", func() bool { return len(about(e.URL(), s.numbers(t))) == 0 })
			if tt.late {
				leave()
				s.until(t, "the engine is left alone", func() bool { return e.State().InFlight == 0 })
			}
			after := s.numbers(t)
			require.Empty(t, about(e.URL(), after))
			require.Equal(t, 1.0, pooled(after))
			requireOnward(t, before, after, e.URL())

			s.pods.Delete(t, "p")
			p = s.pods.Run(t, pod("p", e.IP))
			want[e.URL()] = p.UID
			s.serving(t, want)
			fresh := s.numbers(t)
			require.Equal(t, 2.0, pooled(fresh))
			require.Equal(t, 1.0, fresh[`smg_worker_health{worker="`+e.URL()+`"}`])
			require.Zero(t, fresh[`smg_worker_cb_state{worker="`+e.URL()+`"}`])
			require.Zero(t, fresh[`smg_worker_requests_active{worker="`+e.URL()+`"}`])
			requireOnward(t, after, fresh, e.URL())
		})
	}
}

// endless begins a stream on an engine, alone in its pool, that does not end by itself. leave is its client's.
func (s *scene) endless(t *testing.T, e *clustertest.Engine) (leave func()) {
	t.Helper()
	e.SetFaults(engine.Fault{Path: chatPath, HangAfterEvents: new(2)})
	resp, err := s.client.Post(s.URL+chatPath, "application/json", strings.NewReader(chats))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	e.SetFaults()
	return func() { _ = resp.Body.Close() }
}

// requireOnward: no counter has gone backwards, but those of a worker that was taken out.
func requireOnward(t *testing.T, before, after map[string]float64, gone string) {
	t.Helper()
	for series, was := range before {
		name, _, _ := strings.Cut(series, "{")
		counts := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_count")
		if counts && !strings.Contains(series, `worker="`+gone+`"`) {
			require.GreaterOrEqual(t, after[series], was, series)
		}
	}
}
