package telemetry

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ofWorker lists the series of all families that carry a worker's label.
func ofWorker(t testing.TB, m *Metrics, url string) []string {
	t.Helper()
	var all []string
	for name, f := range scrape(t, m) {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "worker" && l.GetValue() == url {
					all = append(all, name+"{"+labelText(s)+"}")
				}
			}
		}
	}
	return all
}

// telemetry.md, section 4.4: threshold 3, three failures; after the open time the next request
func TestBreakerSeriesOfAWorker(t *testing.T) {
	m := newTestMetrics()
	w := m.Workers.Add("http://w:1")
	state := WorkerSample{URL: "http://w:1", Breaker: BreakerOpen, ConsecutiveFailures: 3}
	m.Workers.SetSource(slices.Values([]WorkerSample{state}))
	for range 3 {
		w.Failures.Inc()
	}
	w.Transition(BreakerClosed, BreakerOpen)
	require.Equal(t, map[string]float64{"outcome=failure,worker=http://w:1": 3}, nonZero(series(t, m, "smg_worker_cb_outcomes_total")))
	require.Equal(t, map[string]float64{"from=closed,to=open,worker=http://w:1": 1}, nonZero(series(t, m, "smg_worker_cb_transitions_total")))
	require.Equal(t, map[string]float64{"worker=http://w:1": 1}, series(t, m, "smg_worker_cb_state"))
	require.Equal(t, map[string]float64{"worker=http://w:1": 3}, series(t, m, "smg_worker_cb_consecutive_failures"))

	m.Workers.SetSource(slices.Values([]WorkerSample{{URL: "http://w:1", Breaker: BreakerHalfOpen}}))
	w.Transition(BreakerOpen, BreakerHalfOpen)
	w.Successes.Inc()
	w.Readmissions.Inc()
	require.Equal(t, 1.0, series(t, m, "smg_worker_cb_transitions_total")["from=open,to=half_open,worker=http://w:1"])
	require.Equal(t, map[string]float64{"worker=http://w:1": 2}, series(t, m, "smg_worker_cb_state"))
	require.Equal(t, map[string]float64{"worker=http://w:1": 0}, series(t, m, "smg_worker_cb_consecutive_failures"))
	require.Equal(t, map[string]float64{"worker=http://w:1": 1}, series(t, m, "smg_worker_cb_health_readmissions_total"))
}

// telemetry.md, section 2: delete a worker with a running stream; DECISIONS.md, row 13
func TestNoSeriesOfARemovedWorkerIsLeftOrComesBack(t *testing.T) {
	m := newTestMetrics()
	gone, stays := m.Workers.Add("http://gone:1@0"), m.Workers.Add("http://stays:1")
	registered := []WorkerSample{{URL: "http://gone:1@0", KeysTracked: true}, {URL: "http://stays:1"}}
	m.Workers.SetSource(func(yield func(WorkerSample) bool) { slices.Values(registered)(yield) })
	gone.Requests("m").Inc()
	stays.Requests("m").Inc()
	require.Len(t, ofWorker(t, m, "http://gone:1@0"), 10+6+2+1+1)
	others := len(ofWorker(t, m, "http://stays:1"))

	registered = registered[1:]
	m.Workers.Forget(gone)
	require.Empty(t, ofWorker(t, m, "http://gone:1@0"))

	// The stream that was running ends now, and is retried under another model.
	gone.Requests("m").Inc()
	gone.Requests("n").Inc()
	gone.Failures.Inc()
	gone.Successes.Inc()
	gone.Readmissions.Inc()
	gone.Transition(BreakerClosed, BreakerOpen)
	m.Workers.Forget(gone)
	require.Empty(t, ofWorker(t, m, "http://gone:1@0"))
	require.Len(t, ofWorker(t, m, "http://stays:1"), others)
	require.Equal(t, map[string]float64{"model=m,worker=http://stays:1": 1}, series(t, m, "smg_worker_requests_total"))
}

// cases.md, C36: added again, its series are fresh, and the old registration cannot touch them
func TestAWorkerThatIsAddedAgainStartsAtZero(t *testing.T) {
	m := newTestMetrics()
	old := m.Workers.Add("http://w:1")
	old.Requests("m").Add(5)
	old.Failures.Add(5)
	again := m.Workers.Add("http://w:1") // before the old one is forgotten: jobs may end in any order
	require.Empty(t, series(t, m, "smg_worker_requests_total"))
	again.Requests("m").Inc()

	old.Requests("m").Inc()
	old.Failures.Inc()
	m.Workers.Forget(old)
	require.Equal(t, map[string]float64{"model=m,worker=http://w:1": 1}, series(t, m, "smg_worker_requests_total"))
	require.Empty(t, nonZero(series(t, m, "smg_worker_cb_outcomes_total")))

	m.Workers.Forget(again)
	require.Empty(t, ofWorker(t, m, "http://w:1"))
}

func TestForgettingWhileRequestsCount(t *testing.T) {
	m := newTestMetrics()
	for range 50 {
		w := m.Workers.Add("http://w:1")
		var all sync.WaitGroup
		for _, model := range []string{"a", "b", "c"} {
			all.Go(func() { w.Requests(model).Inc() })
		}
		all.Go(func() { m.Workers.Forget(w) })
		all.Wait()
		require.Empty(t, ofWorker(t, m, "http://w:1"))
	}
}

// telemetry.md, section 4.4
func TestStatesOfWorkersAreReadAtTheScrape(t *testing.T) {
	m := newTestMetrics()
	m.Workers.SetSource(slices.Values([]WorkerSample{
		{URL: "http://a:1", Type: WorkerRegular, ConnectionMode: "http", Model: "m", Ready: true, InFlight: 3, HTTP2: true, ConsecutiveSuccesses: 7},
		{URL: "http://b:1", Type: WorkerRegular, ConnectionMode: "http", Model: "m", Overloaded: true, KeysTracked: true, RoutingKeys: 2},
		{URL: "http://c:1", Type: WorkerRegular, ConnectionMode: "http", Model: "n"},
		{URL: "http://c:1", Type: WorkerRegular, ConnectionMode: "http", Model: "n", InFlight: 9},
		{URL: "http://d\xff:1", Type: WorkerPrefill, ConnectionMode: "http"},
	}))
	all := func(a, b, c, d float64) map[string]float64 {
		return map[string]float64{"worker=http://a:1": a, "worker=http://b:1": b, "worker=http://c:1": c, "worker=http://d\uFFFD:1": d}
	}
	require.Equal(t, all(3, 0, 0, 0), series(t, m, "smg_worker_requests_active"), "a URL that comes twice is taken once")
	require.Equal(t, all(1, 0, 0, 0), series(t, m, "smg_worker_health"))
	require.Equal(t, all(1, 0, 0, 0), series(t, m, "smg_worker_http2"))
	require.Equal(t, all(7, 0, 0, 0), series(t, m, "smg_worker_cb_consecutive_successes"))
	require.Equal(t, map[string]float64{"worker=http://b:1": 2}, series(t, m, "smg_worker_routing_keys_active"),
		"what nobody tracks has no series")
	require.Equal(t, map[string]float64{
		"connection_mode=http,model=m,worker_type=regular": 2, "connection_mode=http,model=n,worker_type=regular": 1,
		"connection_mode=http,model=unknown,worker_type=prefill": 1,
	}, series(t, m, "smg_worker_pool_size"))
	require.Equal(t, map[string]float64{"model=m": 1, "model=n": 0, "model=unknown": 0}, series(t, m, "smg_workers_overloaded"))
}

// telemetry.md, section 4.4
func TestCountersThatAreSharedByWorkers(t *testing.T) {
	m := newTestMetrics()
	w := m.Workers
	w.HealthChecks(WorkerRegular, true).Inc()
	w.HealthChecks(WorkerDecode, false).Add(2)
	w.HealthChecks("no such type", true).Inc()
	w.Retries(WorkerRegular, EndpointChat).Add(2)
	w.RetriesExhausted(WorkerRegular, "no such endpoint").Inc()
	w.Retries("no such type", EndpointChat).Inc()
	w.Sheds(ShedSelection).Inc()
	w.OverloadFallbacks(ShedDispatch).Inc()
	w.Errors(WorkerRegular, "http", true).Inc()
	w.Errors(WorkerRegular, "http", false).Add(2)
	w.Selections(WorkerRegular, "http", "m", "round_robin").Inc()

	want := map[string]map[string]float64{
		"smg_worker_health_checks_total":     {"result=success,worker_type=regular": 1, "result=failure,worker_type=decode": 2},
		"smg_worker_retries_total":           {"endpoint=chat,worker_type=regular": 2},
		"smg_worker_retries_exhausted_total": {"endpoint=other,worker_type=regular": 1},
		"smg_worker_overload_shed_total":     {"stage=selection": 1},
		"smg_worker_overload_fallback_total": {"stage=dispatch": 1},
		"smg_worker_errors_total": {
			"connection_mode=http,error_type=timeout,worker_type=regular":       1,
			"connection_mode=http,error_type=backend_error,worker_type=regular": 2,
		},
		"smg_worker_selection_total": {"connection_mode=http,model=m,policy=round_robin,worker_type=regular": 1},
	}
	for family, moved := range want {
		require.Equal(t, moved, nonZero(series(t, m, family)), family)
	}
}

// telemetry.md, section 4.4: the label is capped at 10+
func TestBackoffByAttempt(t *testing.T) {
	m := newTestMetrics()
	for retry := range 100 {
		m.Workers.Backoff(retry + 1).Observe(0.05)
	}
	all := series(t, m, "smg_worker_retry_backoff_seconds")
	require.Len(t, all, 10)
	require.Equal(t, 1.0, all["attempt=1"])
	require.Equal(t, 91.0, all["attempt=10+"])
	for labels := range all {
		require.True(t, strings.HasPrefix(labels, "attempt="))
	}
}

// load-signals.md, section 5; telemetry.md, section 4.4: deleted with the report, no series for what was not sent
func TestLoadsOfEnginesAreReadAtTheScrape(t *testing.T) {
	m := newTestMetrics()
	half := 0.5
	registered := []WorkerSample{
		{URL: "http://a:1", Model: "m", Engine: &EngineSample{Age: 3 * time.Second, Ranks: []RankSample{fullRank(0), fullRank(1), {Rank: 1, Running: &half}}}},
		{URL: "http://b:1", Model: "m", Engine: &EngineSample{Ranks: []RankSample{{Usage: &half, DecodeQueue: &half, Role: "x"}}}},
		{URL: "http://c:1", Model: "m"},
	}
	m.Workers.SetSource(func(yield func(WorkerSample) bool) { slices.Values(registered)(yield) })
	require.Equal(t, map[string]float64{
		"dp_rank=0,model=m,worker=http://a:1": 1, "dp_rank=1,model=m,worker=http://a:1": 1,
	}, series(t, m, "smg_engine_running_requests"), "a number that two ranks have is given to the first")
	require.Equal(t, map[string]float64{
		"dp_rank=0,model=m,worker=http://a:1": 0.5, "dp_rank=1,model=m,worker=http://a:1": 0.5, "dp_rank=0,model=m,worker=http://b:1": 0.5,
	}, series(t, m, "smg_engine_token_usage"))
	require.Equal(t, map[string]float64{
		"dp_rank=0,role=prefill,worker=http://a:1": 6, "dp_rank=1,role=prefill,worker=http://a:1": 6, "dp_rank=0,role=null,worker=http://b:1": 0.5,
	}, series(t, m, "smg_engine_pd_decode_queue_reqs"))
	require.Equal(t, map[string]float64{"worker=http://a:1": 3, "worker=http://b:1": 0}, series(t, m, "smg_load_report_age_seconds"))
	require.Len(t, ofWorker(t, m, "http://c:1"), len(ofWorker(t, m, "http://b:1"))-3)

	registered[0].Engine, registered = nil, registered[:1]
	for _, f := range m.Families() {
		if strings.HasPrefix(f.Name, "smg_engine_") {
			require.Empty(t, series(t, m, f.Name), f.Name)
		}
	}
}

// telemetry.md, section 5
func TestPollsAreCountedByResult(t *testing.T) {
	m := newTestMetrics()
	require.Len(t, series(t, m, "smg_load_polls_total"), 3*5, "all exist from the start")
	m.Loads.Poll("http", "timeout", 5*time.Second)
	m.Loads.Poll("http", "no such result", time.Second)
	require.Equal(t, map[string]float64{"connection_mode=http,result=timeout": 1}, nonZero(series(t, m, "smg_load_polls_total")))
	require.EqualValues(t, 2, scrape(t, m)["smg_load_poll_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
	for range 2 {
		m.Loads.Ignored([]string{"token_usage"})
	}
	require.Equal(t, map[string]float64{"field=token_usage": 2}, nonZero(series(t, m, "smg_load_numbers_ignored_total")))
}
