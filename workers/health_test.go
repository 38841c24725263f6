package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// probing runs a health loop until the test ends.
func probing(t *testing.T, h *HealthLoop) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	readied, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- h.Run(ctx, func() { close(readied) }) }()
	<-readied
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// probed is a spec whose worker is probed every so many seconds.
func probed(url string, interval uint32) Spec {
	s := NewSpec(url)
	s.Health = &HealthSpec{CheckIntervalSecs: &interval}
	return s
}

// workers.md sections 6 and 7, cases.md C12: the way of one worker over real connections
func TestHealthLoopTakesAWorkerOutAndBackIn(t *testing.T) {
	engine := startEngine(t, map[string]page{"/ping": ok("")})
	settings := DefaultSettings()
	settings.Health = HealthSettings{Interval: 3 * time.Millisecond, Timeout: 5 * time.Second, FailureThreshold: 2, SuccessThreshold: 2, Endpoint: "/ping"}
	spec := NewSpec(engine.URL)
	spec.APIKey = "k1"
	w, err := New(spec, settings)
	require.NoError(t, err)
	r := NewRegistry(w)
	var heard diary
	stopHearing := r.Listen(&heard)

	var log lines
	var good, bad atomic.Int64
	h := NewHealthLoop(r, slog.New(slog.NewTextHandler(&log, nil)))
	require.Equal(t, "health", h.Name())
	h.OnProbe(func(_ *Worker, ok bool) {
		if ok {
			good.Add(1)
			return
		}
		bad.Add(1)
	})
	stop := probing(t, h)
	eventually(t, "ready", w.Ready)
	require.GreaterOrEqual(t, good.Load(), int64(2))
	require.Zero(t, bad.Load())
	engine.set("/ping", page{301, ""})
	eventually(t, "failed", func() bool { return w.Status() == Failed })
	engine.set("/ping", page{204, ""})
	eventually(t, "ready again", w.Ready)
	stop()
	stopHearing()
	var moves []string
	for _, line := range heard.lines {
		moves = append(moves, strings.TrimPrefix(line, engine.URL+" "))
	}
	require.Equal(t, []string{"pending>ready", "ready>not_ready", "not_ready>failed", "failed>ready"}, moves)
	require.Contains(t, log.String(), `error="GET /ping: status 301"`)
	for _, req := range engine.requests() {
		require.Equal(t, "/ping", req.URL.Path)
		require.Equal(t, []string{"Bearer k1"}, req.Header["Authorization"])
		require.NotContains(t, req.Header, "User-Agent")
	}
}

// capture.md section 4.2, smg_worker_cb_health_readmissions_total: health that comes back lets trials through an open breaker; health that
// was never lost does not, workers.md section 9.
func TestAWorkerThatComesBackIsLetTry(t *testing.T) {
	tests := []struct {
		name    string
		healthy func(minute int) bool
		trips   bool
		want    BreakerState
		counted float64
	}{
		{"an engine that was restarted", func(m int) bool { return m > 3 }, true, BreakerHalfOpen, 1},
		{"one that comes back from failed", func(m int) bool { return m > 13 }, true, BreakerHalfOpen, 1},
		{"one that is healthy, and fails requests", func(int) bool { return true }, true, BreakerOpen, 0},
		{"one that is not back yet", func(m int) bool { return m > 18 }, true, BreakerOpen, 0},
		{"one whose breaker is closed", func(m int) bool { return m > 3 }, false, BreakerClosed, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				spec := NewSpec("http://w:1")
				spec.Resilience = &ResilienceSpec{CBTimeoutSecs: new(uint32(3600)), CBFailureThreshold: new(uint32(1))}
				r := NewRegistry()
				w := add(t, r, spec)
				w.AttachSeries(telemetry.NewMetrics(telemetry.Options{}).Workers.Add(w.URL()))
				if tt.trips {
					w.Breaker().Failure()
				}
				h := NewHealthLoop(r, nil)
				h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
					if tt.healthy(int(time.Since(begun).Minutes())) {
						return status(200, ""), nil
					}
					return status(500, ""), nil
				})
				stop := probing(t, h)
				time.Sleep(18*time.Minute + time.Second)
				stop()
				require.Equal(t, tt.want, w.Breaker().State())
				require.InDelta(t, tt.counted, testutil.ToFloat64(w.Series().Readmissions), 0)
			})
		})
	}
}

// workers.md section 7; time is the test's own
func TestHealthSchedule(t *testing.T) {
	tests := []struct {
		name   string
		spec   Spec
		takes  time.Duration // each probe
		runs   time.Duration
		probes []time.Duration
	}{
		{"at once, then every interval", probed("http://w", 60), 0, 200 * time.Second, secs(0, 60, 120, 180)},
		{"from launch to launch", probed("http://w", 10), 4 * time.Second, 35 * time.Second, secs(0, 10, 20, 30)},
		{"never two at once", probed("http://w", 1), 2500 * time.Millisecond, 6 * time.Second, []time.Duration{0, 2500 * time.Millisecond, 5 * time.Second}},
		{"an interval of 0 is the gateway's", probed("http://w", 0), 0, 61 * time.Second, secs(0, 60)},
		{"disabled", Spec{URL: "http://w", Health: &HealthSpec{DisableHealthCheck: new(true)}}, 0, time.Hour, nil},
		{"external workers are not probed", Spec{URL: "http://w", RuntimeType: External}, 0, time.Hour, nil},
		{"unless they ask for it", Spec{URL: "http://w", RuntimeType: External, Health: &HealthSpec{DisableHealthCheck: new(false)}}, 0, time.Second, secs(0)},
		{"not over HTTP: not here", NewSpec("grpc://w"), 0, time.Hour, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry()
				h := NewHealthLoop(r, nil)
				begun := time.Now()
				var probes []time.Duration
				h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
					probes = append(probes, time.Since(begun))
					time.Sleep(tt.takes)
					return status(200, ""), nil
				})
				stop := probing(t, h)
				add(t, r, tt.spec)
				time.Sleep(tt.runs)
				stop()
				require.Equal(t, tt.probes, probes)
			})
		})
	}
}

// workers.md section 6, first Check; time is the test's own
func TestEngineThatDiesIsOutAfterThreeMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		h := NewHealthLoop(r, nil)
		begun := time.Now()
		h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			if time.Since(begun) > 0 {
				return nil, errors.New("connection refused")
			}
			return status(200, ""), nil
		})
		w := add(t, r, NewSpec("http://w"))
		stop := probing(t, h)
		var moves []string
		for range 800 {
			was := w.Status()
			time.Sleep(time.Second)
			synctest.Wait()
			if now := w.Status(); now != was {
				moves = append(moves, fmt.Sprintf("%s %s", now, time.Since(begun)))
			}
		}
		stop()
		require.Equal(t, []string{"not_ready 3m0s", "failed 12m0s"}, moves)
	})
}

// workers.md section 7; time is the test's own
func TestProbesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		h := NewHealthLoop(r, nil)
		var now, most, all atomic.Int64
		h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			all.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(3 * time.Second)
			return status(200, ""), nil
		})
		for i := range 200 {
			add(t, r, NewSpec(fmt.Sprintf("http://w%d", i)))
		}
		stop := probing(t, h)
		time.Sleep(6*time.Second + time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 200, all.Load(), "all have been probed once")
		require.EqualValues(t, maxProbes, most.Load())
		require.Zero(t, now.Load())
		stop()
	})
}

// workers.md sections 6 and 7: what a probe finds after its worker began to drain, was removed or was replaced counts for nothing
func TestLateResultsAreThrownAway(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *Registry, h *HealthLoop, w *Worker)
		want Status
		more int // probes after the one in flight
		told int // results that counted, by then
	}{
		{"nothing happens meanwhile", func(*Registry, *HealthLoop, *Worker) {}, NotReady, 1, 1},
		{"it drains", func(_ *Registry, _ *HealthLoop, w *Worker) { w.SetStatus(Draining) }, Draining, 0, 0},
		{"it is removed", func(r *Registry, _ *HealthLoop, w *Worker) { r.Remove(w) }, Ready, 0, 0},
		{"it is replaced by another revision", func(_ *Registry, h *HealthLoop, w *Worker) { h.WorkerReplaced(w, revised(w, nil)) }, Ready, 2, 1},
		{"it is replaced by one that is not probed", func(_ *Registry, h *HealthLoop, w *Worker) {
			h.WorkerReplaced(w, revised(w, func(s *HealthSettings) { s.Disabled = true }))
		}, Ready, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry()
				h := NewHealthLoop(r, nil)
				var probes, told atomic.Int64
				h.OnProbe(func(*Worker, bool) { told.Add(1) })
				h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
					if probes.Add(1) > 1 {
						return status(200, ""), nil
					}
					time.Sleep(time.Second)
					return status(500, ""), nil
				})
				s := probed("http://w", 10)
				s.Health.FailureThreshold = new(uint32(1))
				w := add(t, r, s)
				stop := probing(t, h)
				synctest.Wait()
				tt.do(r, h, w)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.want, w.Status())
				require.EqualValues(t, tt.told, told.Load())
				time.Sleep(10 * time.Second)
				stop()
				require.EqualValues(t, 1+tt.more, probes.Load())
			})
		})
	}
}

// workers.md section 7: a replaced worker is probed at once, whoever else is due before its old time
func TestReplacementIsProbedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		h := NewHealthLoop(r, nil)
		begun := time.Now()
		var mu sync.Mutex
		var probes []time.Duration
		h.clients.http1.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			if mu.Lock(); req.URL.Host == "slow" {
				probes = append(probes, time.Since(begun))
			}
			mu.Unlock()
			return status(200, ""), nil
		})
		add(t, r, probed("http://quick", 10))
		w := add(t, r, probed("http://slow", 60))
		stop := probing(t, h)
		time.Sleep(5 * time.Second)
		h.WorkerReplaced(w, revised(w, nil))
		time.Sleep(61 * time.Second)
		stop()
		require.Equal(t, secs(0, 5, 65), probes)
	})
}

// revised is the next revision of a worker, as a replacement will make it.
func revised(w *Worker, change func(*HealthSettings)) *Worker {
	next := &Worker{
		id: w.id, endpoint: w.endpoint, spec: w.spec, settings: w.settings, breaker: w.breaker, traffic: w.traffic, revision: w.revision + 1,
	}
	if change != nil {
		change(&next.settings.Health)
	}
	next.SetStatus(w.Status())
	return next
}

// A loop that was stopped starts again with what is there, and a gateway that stops takes no worker out.
func TestHealthLoopMayRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		h := NewHealthLoop(r, nil)
		probes := 0
		h.clients.http1.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			probes++
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		s := NewSpec("http://w")
		s.Health = &HealthSpec{FailureThreshold: new(uint32(1))}
		w := add(t, r, s)
		for run := range 3 {
			stop := probing(t, h)
			synctest.Wait()
			require.Equal(t, run+1, probes)
			stop()
			require.Equal(t, Ready, w.Status(), "a probe that was cut short is no failure")
		}
	})
}

// BenchmarkHealthLoop is what probing costs: one operation is one probe of a real server, whole loop and server included.
func BenchmarkHealthLoop(b *testing.B) {
	engine := startEngine(b, nil)
	engine.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	settings := DefaultSettings()
	settings.Health.Interval = time.Nanosecond
	r := NewRegistry()
	for i := range 100 {
		w, err := New(NewSpec(fmt.Sprintf("%s/%d", engine.URL, i)), settings)
		require.NoError(b, err)
		require.NoError(b, r.Add(w))
	}
	h := NewHealthLoop(r, nil)
	var left atomic.Int64
	left.Store(int64(b.N))
	ctx, cancel := context.WithCancel(b.Context())
	h.OnProbe(func(*Worker, bool) {
		if left.Add(-1) == 0 {
			cancel()
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, h.Run(ctx, func() {}))
}
