package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// scrape is what a Prometheus server would read: the families that /metrics serves, through the text format.
func scrape(t testing.TB, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	gathered, err := m.Registry().Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, f := range gathered {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&text)
	require.NoError(t, err)
	return families
}

// series is every sample of a family by its labels, "a=1,b=2" in alphabetical order; of a histogram the count.
func series(t testing.TB, m *Metrics, family string) map[string]float64 {
	t.Helper()
	out := make(map[string]float64)
	for _, s := range scrape(t, m)[family].GetMetric() {
		out[labelText(s)] = sampleValue(s)
	}
	return out
}

func labelText(s *dto.Metric) string {
	var parts []string
	for _, l := range s.GetLabel() {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func sampleValue(s *dto.Metric) float64 {
	switch {
	case s.Counter != nil:
		return s.Counter.GetValue()
	case s.Gauge != nil:
		return s.Gauge.GetValue()
	case s.Histogram != nil:
		return float64(s.Histogram.GetSampleCount())
	}
	return math.NaN()
}

// nonZero keeps what has been counted, so that a test can name everything that moved.
func nonZero(all map[string]float64) map[string]float64 {
	maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
	return all
}

// exercise touches every family once, so that all of them have a series.
func exercise(m *Metrics) {
	r := m.HTTP.Route("/generate")
	r.Requests("GET").Inc()
	r.Duration("GET").Observe(1)
	r.Response(200, "").Inc()
	s := m.Router.Series("m", EndpointChat)
	s.Stream(time.Second, 2*time.Second, 2, Exemplar{})
	m.Loads.Ignored([]string{"token_usage"})
	s.ClientTTFT(time.Second, Exemplar{})
	s.Attempts(1, false)
	m.Router.Upstream("http", 200, "").Inc()
	m.Router.Stage("http", "policy").Observe(0.003)
	m.Workers.Backoff(1).Observe(0.05)
	m.Workers.Selections(WorkerRegular, "http", "m", "random").Inc()
	m.Workers.Errors(WorkerRegular, "http", true).Inc()
	w := m.Workers.Add("http://w:1")
	w.Requests("m").Inc()
	w.Head(time.Second)
	s.Gap().Observe(0.02)
	m.HTTP.Overhead(EndpointChat).Observe(1e-4)
	m.Policies.Decision("random").Observe(1e-6)
	wait := 0.5
	m.Workers.SetSource(func(yield func(WorkerSample) bool) {
		yield(WorkerSample{
			URL: "http://w:1", Status: "ready", Runtime: "sglang", Type: WorkerRegular, ConnectionMode: "http", Model: "m", KeysTracked: true, ExpectedWait: &wait,
			Engine: &EngineSample{Ranks: []RankSample{fullRank(0)}},
		})
	})
	m.Discovery.Source("kubernetes").Sync.Observe(0.1)
	m.Policies.TreeChars.WithLabelValues("m").Set(1)
	m.Policies.TreeTokens.WithLabelValues("m").Set(1)
	m.Policies.TreeTenants.WithLabelValues("m", "string").Set(1)
}

// fullRank is a rank that tells everything.
func fullRank(rank int) RankSample {
	v := func(f float64) *float64 { return &f }
	return RankSample{
		Rank: rank, Running: v(1), Waiting: v(2), Usage: v(0.5), Throughput: v(100), HitRate: v(0.25),
		Role: WorkerPrefill, Latency: v(3), Speed: v(4), PrefillQueue: v(5), DecodeQueue: v(6),
	}
}

func newTestMetrics() *Metrics { return NewMetrics(Options{Version: "1.2.3", Commit: "abc"}) }

// telemetry.md, section 4: label sets are exact. A histogram's name ends in its kind, here.
func TestFamiliesHaveTheDocumentedNamesTypesAndLabels(t *testing.T) {
	want := []string{
		"smg_admission_inflight gauge []",
		"smg_admission_queue_depth gauge []",
		"smg_admission_queue_rejected_total counter [reason]",
		"smg_admission_queue_wait_seconds histogram [outcome]",
		"smg_build_info gauge [version commit go_version]",
		"smg_cache_aware_match_ratio histogram []",
		"smg_cache_aware_policy_branch_total counter [branch]",
		"smg_cache_index_bytes gauge []",
		"smg_cache_tree_chars gauge [model]",
		"smg_cache_tree_tenants gauge [model tree]",
		"smg_cache_tree_tokens gauge [model]",
		"smg_client_disconnects_total counter [endpoint phase]",
		"smg_client_ttft_seconds histogram [endpoint model]",
		"smg_consistent_hashing_policy_branch_total counter [branch]",
		"smg_discovery_deregistrations_total counter [source reason]",
		"smg_discovery_registrations_total counter [source result]",
		"smg_discovery_snapshot_errors_total counter []",
		"smg_discovery_submit_failures_total counter [action]",
		"smg_discovery_sync_duration_seconds histogram [source]",
		"smg_discovery_workers_discovered gauge [source]",
		"smg_draining gauge []",
		"smg_engine_cache_hit_rate gauge [worker model dp_rank]",
		"smg_engine_gen_throughput gauge [worker model dp_rank]",
		"smg_engine_pd_decode_queue_reqs gauge [worker role dp_rank]",
		"smg_engine_pd_kv_transfer_latency_ms gauge [worker role dp_rank]",
		"smg_engine_pd_kv_transfer_speed_gb_s gauge [worker role dp_rank]",
		"smg_engine_pd_prefill_queue_reqs gauge [worker role dp_rank]",
		"smg_engine_running_requests gauge [worker model dp_rank]",
		"smg_engine_token_usage gauge [worker model dp_rank]",
		"smg_engine_waiting_requests gauge [worker model dp_rank]",
		"smg_gateway_overhead_seconds histogram [endpoint]",
		"smg_http_connection_timeouts_total counter [timeout]",
		"smg_http_connections_active gauge []",
		"smg_http_inflight_request_age_count gauge [gt le]",
		"smg_http_rate_limit_total counter [result]",
		"smg_http_request_duration_seconds histogram [method path]",
		"smg_http_requests_total counter [method path]",
		"smg_http_responses_total counter [path status_code error_code]",
		"smg_job_duration_seconds histogram [type]",
		"smg_job_queue_depth gauge []",
		"smg_job_queue_running gauge []",
		"smg_jobs_total counter [type result]",
		"smg_load_numbers_ignored_total counter [field]",
		"smg_load_poll_duration_seconds histogram []",
		"smg_load_polls_total counter [connection_mode result]",
		"smg_load_report_age_seconds gauge [worker]",
		"smg_log_lines_dropped_total counter [sink]",
		"smg_manual_policy_branch_total counter [branch]",
		"smg_manual_policy_cache_entries gauge []",
		"smg_policy_decision_seconds histogram [policy]",
		"smg_prefix_hash_policy_branch_total counter [branch]",
		"smg_ready gauge []",
		"smg_record_requests_total counter [result]",
		"smg_router_attempts histogram [endpoint outcome]",
		"smg_router_generation_duration_seconds histogram [router_type backend_type model endpoint]",
		"smg_router_itl_seconds histogram [router_type model endpoint]",
		"smg_router_request_body_path_total counter [path reason]",
		"smg_router_request_buffers_released_early_bytes_total counter []",
		"smg_router_request_duration_seconds histogram [router_type backend_type connection_mode model endpoint]",
		"smg_router_request_errors_total counter [router_type backend_type connection_mode model endpoint error_type]",
		"smg_router_requests_total counter [router_type backend_type connection_mode model endpoint streaming]",
		"smg_router_stage_duration_seconds histogram [router_type stage]",
		"smg_router_tokens_total counter [router_type backend_type model endpoint token_type]",
		"smg_router_tpot_seconds histogram [router_type backend_type model endpoint]",
		"smg_router_ttft_seconds histogram [router_type backend_type model endpoint]",
		"smg_router_upstream_responses_total counter [router_type status_code error_code]",
		"smg_router_upstream_send_retries_total counter [router_type]",
		"smg_routing_key_source_total counter [source]",
		"smg_runtime_procs gauge []",
		"smg_runtime_stalls_total counter []",
		"smg_runtime_wake_delay_seconds histogram []",
		"smg_stream_backpressure_seconds_total counter [endpoint]",
		"smg_trace_spans_total counter [result]",
		"smg_upstream_connect_duration_seconds histogram []",
		"smg_upstream_connections_total counter [connection_mode reused]",
		"smg_worker_cb_consecutive_failures gauge [worker]",
		"smg_worker_cb_consecutive_successes gauge [worker]",
		"smg_worker_cb_health_readmissions_total counter [worker]",
		"smg_worker_cb_outcomes_total counter [worker outcome]",
		"smg_worker_cb_state gauge [worker]",
		"smg_worker_cb_transitions_total counter [worker from to]",
		"smg_worker_errors_total counter [worker_type connection_mode error_type]",
		"smg_worker_expected_wait_seconds gauge [worker]",
		"smg_worker_health gauge [worker]",
		"smg_worker_health_checks_total counter [worker_type result]",
		"smg_worker_http2 gauge [worker]",
		"smg_worker_info gauge [worker model worker_type connection_mode runtime]",
		"smg_worker_overload_fallback_total counter [stage]",
		"smg_worker_overload_shed_total counter [stage]",
		"smg_worker_overloaded gauge [worker]",
		"smg_worker_pool_size gauge [worker_type connection_mode model]",
		"smg_worker_registration_duration_seconds histogram []",
		"smg_worker_registration_total counter [source result]",
		"smg_worker_request_duration_seconds histogram [worker]",
		"smg_worker_requests_active gauge [worker]",
		"smg_worker_requests_total counter [worker model]",
		"smg_worker_retries_exhausted_total counter [worker_type endpoint]",
		"smg_worker_retries_total counter [worker_type endpoint]",
		"smg_worker_retry_backoff_seconds histogram [attempt]",
		"smg_worker_routing_keys_active gauge [worker]",
		"smg_worker_selection_total counter [worker_type connection_mode model policy]",
		"smg_worker_status gauge [worker status]",
		"smg_workers_overloaded gauge [model]",
	}
	var got []string
	for _, f := range newTestMetrics().Families() {
		got = append(got, fmt.Sprint(f.Name, " ", f.Type, " ", f.Labels))
	}
	require.Equal(t, want, got)
}

func TestWhatIsServedIsWhatFamiliesLists(t *testing.T) {
	m := newTestMetrics()
	exercise(m)
	served := scrape(t, m)
	for _, f := range m.Families() {
		got := served[f.Name]
		require.NotNil(t, got, "%s is listed and not served", f.Name)
		delete(served, f.Name)
		require.Equal(t, f.Help, got.GetHelp())
		require.Equal(t, f.Type, strings.ToLower(got.GetType().String()), f.Name)
		for _, s := range got.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName())
			}
			require.ElementsMatch(t, f.Labels, labels, f.Name)
		}
	}
	for name := range served {
		require.Regexp(t, "^(go|process)_", name, "served and not listed")
	}
	require.Contains(t, served, "go_goroutines")
	require.Contains(t, served, "process_start_time_seconds")
}

func TestFamiliesPassThePrometheusLinter(t *testing.T) {
	m := newTestMetrics()
	exercise(m)
	// Names and labels that dashboards already query, see telemetry.md section 4.1.1.
	excepted := []string{
		`smg_engine_pd_kv_transfer_latency_ms: metric names should not contain abbreviated units`,
		`smg_engine_pd_kv_transfer_speed_gb_s: metric names should not contain abbreviated units`,
		`smg_http_inflight_request_age_count: non-histogram and non-summary metrics should not have "_count" suffix`,
		`smg_http_inflight_request_age_count: non-histogram metrics should not have "le" label`,
	}
	problems, err := testutil.GatherAndLint(m.Registry())
	require.NoError(t, err)
	var got []string
	for _, p := range problems {
		got = append(got, p.Metric+": "+p.Text)
	}
	slices.Sort(got) // the label is reported once for each series
	require.Equal(t, excepted, slices.Compact(got))
}

// telemetry.md, section 3
func TestDurationBuckets(t *testing.T) {
	tests := []struct {
		name, family   string
		bounds         int // +Inf included
		withOwnBuckets int // with --prometheus-duration-buckets 0.1 1 10
	}{
		{"requests", "smg_http_request_duration_seconds", 30, 4},
		{"routed requests", "smg_router_request_duration_seconds", 30, 4},
		{"time to first token", "smg_router_ttft_seconds", 30, 4},
		{"time per output token", "smg_router_tpot_seconds", 30, 4},
		{"streams", "smg_router_generation_duration_seconds", 30, 4},
		{"polls of engines", "smg_load_poll_duration_seconds", 30, 4},
		{"the wake delay keeps its own", "smg_runtime_wake_delay_seconds", 11, 11},
		{"backoff keeps its own", "smg_worker_retry_backoff_seconds", 13, 13},
		{"stages take microseconds and keep their own", "smg_router_stage_duration_seconds", 16, 16},
	}
	standard, own := newTestMetrics(), NewMetrics(Options{DurationBuckets: []float64{0.1, 1, 10}})
	exercise(standard)
	exercise(own)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bounds := func(m *Metrics) int { return len(scrape(t, m)[tt.family].GetMetric()[0].GetHistogram().GetBucket()) }
			require.Equal(t, tt.bounds, bounds(standard))
			require.Equal(t, tt.withOwnBuckets, bounds(own))
		})
	}
}

// telemetry.md, section 2: zero series
func TestClosedLabelSetsAreThereAtZeroFromTheStart(t *testing.T) {
	m := newTestMetrics()
	tests := []struct {
		family string
		series int
	}{
		{"smg_http_rate_limit_total", 2},
		{"smg_http_connection_timeouts_total", 2},
		{"smg_admission_queue_rejected_total", 2},
		{"smg_admission_queue_depth", 1},
		{"smg_client_disconnects_total", 14 * 3},
		{"smg_http_inflight_request_age_count", 12},
		{"smg_router_request_body_path_total", 14},
		{"smg_router_upstream_send_retries_total", 1},
		{"smg_worker_health_checks_total", 4 * 2},
		{"smg_worker_retries_total", 4 * 14},
		{"smg_worker_retries_exhausted_total", 4 * 14},
		{"smg_worker_overload_shed_total", 3},
		{"smg_worker_overload_fallback_total", 3},
		{"smg_log_lines_dropped_total", 2},
		{"smg_record_requests_total", 3},
		{"smg_discovery_submit_failures_total", 2},
		{"smg_discovery_snapshot_errors_total", 1},
		{"smg_runtime_stalls_total", 1},
	}
	for _, tt := range tests {
		t.Run(tt.family, func(t *testing.T) {
			all := series(t, m, tt.family)
			require.Len(t, all, tt.series)
			require.Empty(t, nonZero(all))
		})
	}
	m.Workers.Add("http://w:1")
	require.Len(t, series(t, m, "smg_worker_cb_transitions_total"), 6)
	require.Len(t, series(t, m, "smg_worker_cb_outcomes_total"), 2)
	require.Empty(t, series(t, m, "smg_discovery_registrations_total"), "nothing is discovered")
	m.Discovery.Source("file")
	require.Equal(t, map[string]float64{"result=failed,source=file": 0, "result=success,source=file": 0}, series(t, m, "smg_discovery_registrations_total"))
	require.Equal(t, map[string]float64{"reason=reconciled,source=file": 0}, series(t, m, "smg_discovery_deregistrations_total"))
}

// telemetry.md, section 4.0
func TestBuildInfo(t *testing.T) {
	all := series(t, newTestMetrics(), "smg_build_info")
	require.Len(t, all, 1)
	for labels, v := range all {
		require.Regexp(t, `^commit=abc,go_version=go1\.\S+,version=1\.2\.3$`, labels)
		require.Equal(t, 1.0, v)
	}
}

func TestLinesThatALogLostAreExported(t *testing.T) {
	m := newTestMetrics()
	l, err := NewLogger(LogOptions{Stdout: failing{}, Env: func(string) string { return "" }})
	require.NoError(t, err)
	m.WatchLog(l)
	l.Target("smg").Info("x")
	require.Equal(t, map[string]float64{"sink=stdout": 1, "sink=file": 0}, series(t, m, "smg_log_lines_dropped_total"))
}

// A program that is built out of smg's parts registers its own metrics beside smg's.
func TestAProgramMayAddItsOwnMetrics(t *testing.T) {
	m := newTestMetrics()
	mine := prometheus.NewCounter(prometheus.CounterOpts{Name: "mine_total", Help: "Mine."})
	require.NoError(t, m.Registry().Register(mine))
	mine.Inc()
	require.Equal(t, map[string]float64{"": 1}, series(t, m, "mine_total"))
}
