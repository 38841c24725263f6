package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	four = "backend_type=regular,endpoint=chat,model=m,router_type=http"
	five = "backend_type=regular,connection_mode=http,endpoint=chat,model=m,router_type=http"
)

// telemetry.md, section 4.2: worker returns 503, 503, 200; and always 503 with 3 attempts
func TestRoutedRequestIsCountedOnceHoweverManyAttempts(t *testing.T) {
	m := newTestMetrics()
	s := m.Router.Series("m", EndpointChat)
	s.Requests(false).Inc()
	for _, status := range []int{503, 503, 200} {
		m.Router.Upstream("http", status, "").Inc()
	}
	s.Duration.Observe(0.1)

	s.Requests(true).Inc()
	for range 3 {
		m.Router.Upstream("http", 503, "").Inc()
	}
	s.Errors(ErrorTypeOf(503, "")).Inc()
	m.Router.Upstream("http", 502, "upstream_connect_error").Inc()

	require.Equal(t, map[string]float64{
		"backend_type=regular,connection_mode=http,endpoint=chat,model=m,router_type=http,streaming=false": 1,
		"backend_type=regular,connection_mode=http,endpoint=chat,model=m,router_type=http,streaming=true":  1,
	}, series(t, m, "smg_router_requests_total"))
	require.Equal(t, map[string]float64{
		"error_code=,router_type=http,status_code=200": 1, "error_code=,router_type=http,status_code=503": 5,
		"error_code=upstream_connect_error,router_type=http,status_code=502": 1,
	}, series(t, m, "smg_router_upstream_responses_total"))
	require.Equal(t, map[string]float64{five: 1}, series(t, m, "smg_router_request_duration_seconds"))
	require.Equal(t, map[string]float64{
		"backend_type=regular,connection_mode=http,endpoint=chat,error_type=backend_error,model=m,router_type=http": 1,
	}, nonZero(series(t, m, "smg_router_request_errors_total")))
}

// telemetry.md, section 4.2
func TestStreamTimes(t *testing.T) {
	tests := []struct {
		name               string
		first, end         time.Duration
		tokens             int64
		ttft, tpot, ending float64 // sums; -1: no sample
	}{
		{"21 tokens in 2 s after the first take 0.1 s each", 500 * time.Millisecond, 2500 * time.Millisecond, 21, 0.5, 0.1, 2.5},
		{"one token has no time between tokens", 500 * time.Millisecond, 600 * time.Millisecond, 1, 0.5, -1, 0.6},
		{"without usage there is none either", 500 * time.Millisecond, 600 * time.Millisecond, 0, 0.5, -1, 0.6},
		{"a stream without an event has an end only", 0, 3 * time.Second, 0, -1, -1, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newTestMetrics()
			m.Router.Series("m", EndpointChat).Stream(tt.first, tt.end, tt.tokens, Exemplar{})
			sum := func(family string) float64 {
				samples := scrape(t, m)[family].GetMetric()
				if len(samples) == 0 {
					return -1
				}
				require.Equal(t, four, labelText(samples[0]))
				require.EqualValues(t, 1, samples[0].GetHistogram().GetSampleCount())
				return samples[0].GetHistogram().GetSampleSum()
			}
			require.InDelta(t, tt.ttft, sum("smg_router_ttft_seconds"), 1e-9)
			require.InDelta(t, tt.tpot, sum("smg_router_tpot_seconds"), 1e-9)
			require.InDelta(t, tt.ending, sum("smg_router_generation_duration_seconds"), 1e-9)
		})
	}
}

// telemetry.md, section 4.2
func TestTokens(t *testing.T) {
	m := newTestMetrics()
	s := m.Router.Series("m", EndpointChat)
	s.Tokens(14, 8)
	s.Tokens(0, 2)
	s.Tokens(-5, -5) // an engine may send anything; a counter that is given less than 0 panics
	require.Equal(t, map[string]float64{four + ",token_type=input": 14, four + ",token_type=output": 10},
		series(t, m, "smg_router_tokens_total"))
}

// telemetry.md, section 4.2
func TestErrorTypeOf(t *testing.T) {
	tests := []struct {
		name   string
		status int
		code   string
		want   string
	}{
		{"a model nobody serves", 404, "model_not_found", "no_workers"},
		{"a time-out of the gateway", 504, "upstream_timeout", "timeout"},
		{"a request that came too slowly", 408, "", "timeout"},
		{"a worker's 500", 500, "", "backend_error"},
		{"a worker's 503", 503, "", "backend_error"},
		{"a connection that failed", 502, "upstream_connect_error", "backend_error"},
		{"the gateway's own 503 is no fault of a backend", 503, "no_available_workers", "no_workers"},
		{"nor is a shed", 503, "worker_overload_protection_shed", "no_workers"},
		{"nor a missing pair", 503, "no_compatible_pd_pair", "no_workers"},
		{"a request that is wrong", 400, "invalid_json", "validation_error"},
		{"a stream that broke behind a good head", 200, "stream_error", "backend_error"},
		{"a fault of the gateway itself", 500, "internal_error", "internal_error"},
		{"everything else", 429, "", "internal_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, ErrorTypeOf(tt.status, tt.code).String()) })
	}
}

func TestSeriesIsMadeOncePerKindModelAndEndpoint(t *testing.T) {
	r := newTestMetrics().Router
	pd := RouterKind{Router: "http", Backend: "pd", Connection: "http"}
	require.Same(t, r.Series("m", EndpointChat), r.Series("m", EndpointChat))
	require.Same(t, r.Series("m", EndpointChat), r.SeriesOf(RegularHTTP, "m", EndpointChat))
	require.Same(t, r.Series("m", EndpointOther), r.Series("m", "no such endpoint"))
	require.NotSame(t, r.Series("m", EndpointChat), r.Series("n", EndpointChat))
	require.NotSame(t, r.Series("m", EndpointChat), r.SeriesOf(pd, "m", EndpointChat))
}

// telemetry.md, section 4.2
func TestBodyPaths(t *testing.T) {
	m := newTestMetrics()
	m.Router.BodyPath("buffered", "policy_needs_text").Inc()
	m.Router.BodyPath("streamed", "pure_forward").Inc()
	m.Router.BodyPath("streamed", "made up").Inc()
	require.Equal(t, map[string]float64{"path=buffered,reason=policy_needs_text": 1, "path=streamed,reason=pure_forward": 1},
		nonZero(series(t, m, "smg_router_request_body_path_total")))
}

// telemetry.md, section 5; DECISIONS.md, row 54
func TestStageOfThreeMillisecondsIsInItsBucket(t *testing.T) {
	m := newTestMetrics()
	m.Router.Stage("http", "policy").Observe(0.003)
	h := scrape(t, m)["smg_router_stage_duration_seconds"].GetMetric()[0]
	require.Equal(t, "router_type=http,stage=policy", labelText(h))
	for _, b := range h.GetHistogram().GetBucket() {
		want := uint64(0)
		if b.GetUpperBound() >= 0.005 {
			want = 1
		}
		require.Equal(t, want, b.GetCumulativeCount(), "le=%v", b.GetUpperBound())
	}
}

func TestSendRetries(t *testing.T) {
	m := newTestMetrics()
	m.Router.SendRetries("http").Inc()
	m.Router.BuffersReleased.Add(1024)
	require.Equal(t, map[string]float64{"router_type=http": 1}, series(t, m, "smg_router_upstream_send_retries_total"))
	require.Equal(t, map[string]float64{"": 1024}, series(t, m, "smg_router_request_buffers_released_early_bytes_total"))
}
