package telemetry

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 4.1
func TestRouteMetrics(t *testing.T) {
	m := newTestMetrics()
	r := m.HTTP.Route("/v1/responses/{response_id}")
	r.Requests("GET").Inc()
	r.Requests("GET").Inc()
	r.Requests("BREW").Inc()
	r.Duration("GET").Observe(0.2)
	r.Response(200, "").Inc()
	r.Response(499, "client_closed_request").Inc()
	r.Response(499, "client_closed_request").Inc()

	const path = "path=/v1/responses/{response_id}"
	require.Equal(t, map[string]float64{"method=GET," + path: 2, "method=OTHER," + path: 1}, series(t, m, "smg_http_requests_total"))
	require.Equal(t, 1.0, series(t, m, "smg_http_request_duration_seconds")["method=GET,"+path])
	require.Equal(t, map[string]float64{
		"error_code=," + path + ",status_code=200":                      1,
		"error_code=client_closed_request," + path + ",status_code=499": 2,
	}, series(t, m, "smg_http_responses_total"))
}

func TestRouteIsMadeOnce(t *testing.T) {
	h := newTestMetrics().HTTP
	require.Same(t, h.Route("/generate"), h.Route("/generate"))
	require.NotSame(t, h.Route("/generate"), h.Route(PathOther))
}

func TestResponsesWithAStatusThatCannotBeAreOther(t *testing.T) {
	m := newTestMetrics()
	r := m.HTTP.Route("/generate")
	for _, status := range []int{-1, 0, 99, 1000, 1 << 40} {
		r.Response(status, "").Inc()
	}
	require.Equal(t, map[string]float64{"error_code=,path=/generate,status_code=other": 5}, series(t, m, "smg_http_responses_total"))
}

// telemetry.md, section 2: codes are those of the gateway. A program that makes them up must not blow up the scrape.
func TestErrorCodesAreBounded(t *testing.T) {
	m := newTestMetrics()
	r := m.HTTP.Route("/generate")
	for i := range 1000 {
		r.Response(500, fmt.Sprintf("e%d", i)).Inc()
	}
	all := series(t, m, "smg_http_responses_total")
	require.Len(t, all, maxErrorCodes+1)
	require.EqualValues(t, 1000-maxErrorCodes, all["error_code=other,path=/generate,status_code=500"])
}

func TestRouteMetricsFromManyGoroutines(t *testing.T) {
	m := newTestMetrics()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				r := m.HTTP.Route("/generate")
				r.Requests("POST").Inc()
				r.Duration("POST").Observe(0.1)
				r.Response(200+i%50, "").Inc()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]float64{"method=POST,path=/generate": 1600}, series(t, m, "smg_http_requests_total"))
	require.Equal(t, map[string]float64{"method=POST,path=/generate": 1600}, series(t, m, "smg_http_request_duration_seconds"))
	responses := series(t, m, "smg_http_responses_total")
	require.Len(t, responses, 50)
	require.Equal(t, 32.0, responses["error_code=,path=/generate,status_code=200"])
}

// telemetry.md, section 5
func TestClientDisconnects(t *testing.T) {
	m := newTestMetrics()
	m.HTTP.ClientDisconnects(EndpointChat, PhaseQueued).Inc()
	m.HTTP.ClientDisconnects(EndpointGenerate, PhaseBeforeHead).Inc()
	m.HTTP.ClientDisconnects("no such endpoint", PhaseStreaming).Inc()
	require.Equal(t, map[string]float64{
		"endpoint=chat,phase=queued": 1, "endpoint=generate,phase=before_head": 1, "endpoint=other,phase=streaming": 1,
	}, nonZero(series(t, m, "smg_client_disconnects_total")))
}

// telemetry.md, section 4.1
func TestAdmissionIsReadFromTheLimiterAtTheScrape(t *testing.T) {
	m := newTestMetrics()
	state := AdmissionSample{InFlight: 1, Queued: 1}
	m.Admission.SetSource(func() AdmissionSample { return state })
	m.Admission.RejectedFull.Inc()
	require.Equal(t, map[string]float64{"": 1}, series(t, m, "smg_admission_inflight"))
	require.Equal(t, map[string]float64{"": 1}, series(t, m, "smg_admission_queue_depth"))
	require.Equal(t, map[string]float64{"reason=full": 1, "reason=timeout": 0}, series(t, m, "smg_admission_queue_rejected_total"))
	state = AdmissionSample{}
	require.Equal(t, map[string]float64{"": 0}, series(t, m, "smg_admission_queue_depth"))
}
