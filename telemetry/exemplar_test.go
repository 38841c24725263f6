package telemetry

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// spanOf is a span of a trace that the client records, or does not.
func spanOf(t *testing.T, flag string) *Span {
	t.Helper()
	tracing, err := NewTracing(TracingOptions{Endpoint: "http://127.0.0.1:1", Metrics: newTestMetrics().Traces, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tracing.Close(t.Context()) })
	s := new(Span)
	tracing.StartServer(s, "GET /", time.Now(), func(name string) string {
		if name == "Traceparent" {
			return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flag
		}
		return ""
	})
	return s
}

// telemetry.md, section 5: "attach trace_id to duration/ttft histograms when the request is sampled".
func TestExemplarsNameTracesThatAreRecorded(t *testing.T) {
	const trace = `trace_id="0af7651916cd43dd8448eb211c80319c"`
	tests := []struct {
		name string
		span *Span
		want bool
	}{
		{"a trace that is recorded", spanOf(t, "01"), true},
		{"one that is not", spanOf(t, "00"), false},
		{"no trace", new(Span), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newTestMetrics()
			e := tt.span.Exemplar()
			e.Observe(m.HTTP.Route("/x").Duration("POST"), 0.2)
			s := m.Router.Series("m", EndpointChat)
			e.Observe(s.Duration, 0.2)
			s.Stream(200*time.Millisecond, time.Second, 2, e)
			s.ClientTTFT(200*time.Millisecond, e)
			e.Observe(prometheus.ObserverFunc(func(v float64) { require.InDelta(t, 3, v, 0) }), 3)

			url, _ := serve(t, m)
			_, open := ask(t, "GET", url+"/metrics", "application/openmetrics-text; version=1.0.0")
			for _, series := range []string{
				`smg_http_request_duration_seconds_bucket{method="POST",path="/x",le="0.25"} 1`,
				`smg_router_request_duration_seconds_bucket{backend_type="regular",connection_mode="http",endpoint="chat",model="m",router_type="http",le="0.25"} 1`,
				`smg_router_ttft_seconds_bucket{backend_type="regular",endpoint="chat",model="m",router_type="http",le="0.25"} 1`,
				`smg_router_generation_duration_seconds_bucket{backend_type="regular",endpoint="chat",model="m",router_type="http",le="1.0"} 1`,
				`smg_client_ttft_seconds_bucket{endpoint="chat",model="m",le="0.25"} 1`,
			} {
				end := "\n"
				if tt.want {
					end = " # {" + trace + "} "
				}
				require.Contains(t, open, series+end)
			}
			_, plain := ask(t, "GET", url+"/metrics", "")
			require.NotContains(t, plain, "trace_id")
			require.False(t, strings.Contains(plain, " # "), "the text format has none")
		})
	}
}

func BenchmarkExemplar(b *testing.B) {
	o := newTestMetrics().HTTP.Route("/x").Duration("POST")
	for _, tt := range []struct {
		name string
		e    Exemplar
	}{{"none", Exemplar{}}, {"trace", Exemplar{prometheus.Labels{"trace_id": strings.Repeat("0", 32)}}}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tt.e.Observe(o, 0.2)
			}
		})
	}
}
