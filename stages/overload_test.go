package stages

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// load-signals.md, section 6.1; http-dataplane.md, section 5.2; DECISIONS 23.
func TestOverloadShedsOnlyWhenNobodyCanServe(t *testing.T) {
	const shed, none = "worker_overload_protection_shed", "no_available_workers"
	tests := []struct {
		name, w1, w2     string
		code, retryAfter string // response headers; an empty code means that the request was served
		sheds            int
	}{
		{"a request goes to the worker that is not overloaded", "overloaded", "ready", "", "", 0},
		{"a request is shed when every worker is overloaded", "overloaded", "overloaded", shed, "10", 1},
		{"a draining worker does not turn a shed into a plain 503", "overloaded", "draining", shed, "10", 1},
		{"an unhealthy worker may come back, so the request may be retried", "overloaded", "unhealthy", none, "1", 0},
		{"so may one that is not known to work yet", "overloaded", "pending", none, "1", 0},
		{"so may one whose breaker is open", "overloaded", "open", none, "1", 0},
		{"a fleet that drains is not overloaded", "draining", "draining", none, "1", 0},
		{"a fleet that is ill is not overloaded", "unhealthy", "failed", none, "1", 0},
		{"a fleet behind open breakers is not overloaded", "open", "open", none, "1", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, func(s *rigging) {
				states(tt.w1, tt.w2)(s)
				s.retry.MaxAttempts = 2
			})
			c := r.ask(chat())
			require.Equal(t, tt.code, c.code())
			require.Equal(t, tt.retryAfter, c.head.Get("Retry-After"))
			require.Equal(t, tt.sheds, r.total(t, "worker_overload_shed_total{selection}"))
			if tt.code == "" {
				require.Equal(t, 200, c.status)
				return
			}
			require.Equal(t, 503, c.status)
			require.Equal(t, []int{0, 0}, r.asked())
			require.Equal(t, tt.code == none, r.total(t, "worker_retries_total") == 1, "a shed is final, the rest may pass")
		})
	}
}

// load-signals.md, section 6.1: an overloaded worker behind an open breaker is overloaded.
func TestOverloadLooksBehindTheBreaker(t *testing.T) {
	r := newRig(t, 2, states("open", "overloaded"))
	r.workers[0].SetOverloaded(true)
	require.Equal(t, "worker_overload_protection_shed", r.ask(chat()).code())
	r.workers[0].SetOverloaded(false)
	require.Equal(t, "no_available_workers", r.ask(chat()).code())
	r.workers[1].SetOverloaded(false)
	require.Equal(t, 200, r.ask(chat()).status, "the first report under the ceiling clears")
}

// load-signals.md, section 6: w1 vetoed, w2 ok: all traffic to w2, requests already streaming on w1 finish.
func TestOverloadLeavesRunningRequestsAlone(t *testing.T) {
	r := newRig(t, 2, nil)
	c := post(chatPath, stream)
	c.onWrite = func(c *caller, _ []byte) {
		c.onWrite = nil
		r.workers[0].SetOverloaded(true)
		for range 4 {
			require.Equal(t, r.workers[1].URL(), r.ask(chat()).head.Get("X-Smg-Routed-Worker-Id"))
		}
	}
	require.Equal(t, 200, r.ask(c).status)
	require.False(t, c.aborted)
	require.Contains(t, c.got.String(), "[DONE]")
	require.Equal(t, []int{1, 4}, r.asked())
}

// load-signals.md, section 6.1: whole seconds, at least 1; the message names the model as the client did, "unknown" without one.
func TestOverloadTellsWhenToComeBack(t *testing.T) {
	for interval, want := range map[time.Duration]string{
		0: "1", 100 * time.Millisecond: "1", time.Second: "1", 1500 * time.Millisecond: "2", 10 * time.Second: "10", 5 * time.Minute: "300",
	} {
		w := newWorker(t, "http://127.0.0.1:1", "m1", workers.DefaultSettings())
		put(t, w, "overloaded")
		for asked, model := range map[string]string{"alias": "alias", "": "unknown"} {
			c := chat()
			w.SetOverloaded(true) // a removal has dropped the verdict
			m := telemetry.NewMetrics(telemetry.Options{}).Workers
			x := &pipeline.Exchange{Client: c, Asked: asked, Explain: &pipeline.Explanation{}}
			registry := workers.NewRegistry(w)
			loads := workers.NewLoadMonitor(registry, workers.LoadSettings{Interval: interval}, nil)
			err := assembled(t, given(pipeline.Model), Candidates(registry), Overload(loads, m, false)).Run(x)
			registry.Remove(w)
			require.True(t, pipeline.AsError(err).Terminal)
			require.Equal(t, want, c.head.Get("Retry-After"), "interval %v", interval)
			require.Contains(t, c.got.String(), "All workers for model '"+model+"' are overloaded")
			require.Contains(t, c.got.String(), `"type":"server_error","param":null`)
			require.EqualValues(t, 1, testutil.ToFloat64(m.Sheds(telemetry.ShedSelection)))
			require.Equal(t, []pipeline.LeftOut{{Worker: w, Stage: "overload", Reason: "overloaded"}}, x.Explain.LeftOut)
		}
	}
}

// load-signals.md, section 6.1: "it does not count against any circuit breaker".
func TestAShedChargesNobody(t *testing.T) {
	r := newRig(t, 1, states("overloaded"))
	for range 5 {
		r.ask(chat())
	}
	require.Zero(t, r.workers[0].Breaker().ConsecutiveFailures())
	require.Zero(t, r.total(t, "worker_cb_outcomes_total"))
}

// DECISIONS 44: the gate lets pass, when every worker is over, to the least loaded of them
func TestOverloadFallback(t *testing.T) {
	report := func(running, waiting int64, usage float64) *workers.Report {
		return workers.NewReport(time.Time{}, time.Time{}, "", []workers.RankLoad{{Running: running, Waiting: waiting, Usage: usage}})
	}
	vague := workers.NewReport(time.Time{}, time.Time{}, "", []workers.RankLoad{{Running: 5, Waiting: 3, Ignored: workers.SentUsage}})
	const shed, none = "worker_overload_protection_shed", "no_available_workers"
	tests := []struct {
		name    string
		off     bool
		states  [2]string
		reports [2]*workers.Report
		busy    int // requests in flight at the second worker
		served  []int
		code    string
	}{
		{"without it the request is shed", true, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{}, 0, []int{0, 0}, shed},
		{"the fewest requests", false, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{report(5, 3, 0), report(3, 4, 1)}, 0, []int{0, 1}, ""},
		{"of equals the emptiest cache", false, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{report(5, 3, 0.9), report(4, 4, 1)}, 0, []int{1, 0}, ""},
		{"a cache of which nobody knows may be full", false, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{report(5, 3, 0.9), vague}, 0, []int{1, 0}, ""},
		{"what went there since counts", false, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{report(5, 0, 1), report(4, 0, 1)}, 6, []int{1, 0}, ""},
		{"one without a report counts what is in flight", false, [2]string{"overloaded", "overloaded"}, [2]*workers.Report{report(5, 3, 0), nil}, 0, []int{0, 1}, ""},
		{"there is another worker", false, [2]string{"overloaded", "ready"}, [2]*workers.Report{}, 99, []int{0, 1}, ""},
		{"an unhealthy worker may come back", false, [2]string{"overloaded", "unhealthy"}, [2]*workers.Report{}, 0, []int{0, 0}, none},
		{"a draining worker is no alternative", false, [2]string{"overloaded", "draining"}, [2]*workers.Report{}, 0, []int{1, 0}, ""},
		{"the least loaded is behind an open breaker", false, [2]string{"overloaded", "open"}, [2]*workers.Report{report(9, 9, 1), report(0, 0, 1)}, 0, []int{1, 0}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, func(s *rigging) {
				states(tt.states[:]...)(s)
				s.fallback, s.retry.MaxAttempts = !tt.off, 1
			})
			for i, w := range r.workers {
				w.SetReport(tt.reports[i])
				if tt.states[i] == "open" {
					w.SetOverloaded(true)
				}
			}
			for range tt.busy {
				r.workers[1].Begin()
			}
			c := r.ask(chat())
			for range tt.busy {
				r.workers[1].End()
			}
			require.Equal(t, tt.code, c.code())
			require.Equal(t, tt.served, r.asked())
			all := tt.states[1] != "ready" && tt.states[1] != "unhealthy"
			require.Equal(t, !tt.off && all, r.total(t, "worker_overload_fallback_total{selection}") == 1)
			require.Equal(t, tt.code == shed, r.total(t, "worker_overload_shed_total") == 1)
			r.requireQuiet(t)
		})
	}
}

// load-signals.md, section 6.1: a worker behind an open breaker cannot be fallen back to; a dry run counts nothing
func TestOverloadFallbackNeedsACandidate(t *testing.T) {
	r := newRig(t, 2, func(s *rigging) {
		states("open", "open")(s)
		s.fallback = true
	})
	for _, w := range r.workers {
		w.SetOverloaded(true)
	}
	require.Equal(t, "worker_overload_protection_shed", r.ask(chat()).code())
	require.Zero(t, r.total(t, "worker_overload_fallback_total"))

	w := newWorker(t, "http://127.0.0.1:1", "m1", workers.DefaultSettings())
	put(t, w, "overloaded")
	m := telemetry.NewMetrics(telemetry.Options{}).Workers
	registry := workers.NewRegistry(w)
	loads := workers.NewLoadMonitor(registry, workers.LoadSettings{Interval: time.Second}, nil)
	x := &pipeline.Exchange{Client: chat(), DryRun: true, Explain: &pipeline.Explanation{}}
	chain := assembled(t, given(pipeline.Model), Candidates(registry), Overload(loads, m, true), last(200, func(x *pipeline.Exchange) {
		require.Equal(t, 1, x.Candidates.Len())
	}))
	require.NoError(t, chain.Run(x))
	require.Zero(t, testutil.ToFloat64(m.OverloadFallbacks(telemetry.ShedSelection)))
	require.Empty(t, x.Explain.LeftOut)
}
