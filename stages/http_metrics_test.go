package stages

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// telemetry.md, section 4.1: during a stream one is in flight, its duration has been observed at the head, and its response is
// counted when the body has gone out (DECISIONS 43).
func TestHTTPMetricsFollowTheResponseToItsEnd(t *testing.T) {
	r := newRig(t, 1, nil)
	c := post(chatPath, stream)
	c.onWrite = func(*caller, []byte) {
		counts := r.counted(t)
		require.Equal(t, 1, counts["http_requests_total{POST "+chatPath+"}"])
		require.Equal(t, 1, counts["http_connections_active{}"])
		require.Zero(t, r.total(t, "http_responses_total"))
	}
	require.Equal(t, 200, r.ask(c).status)
	counts := r.counted(t)
	require.Zero(t, counts["http_connections_active{}"])
	require.Equal(t, 1, counts["http_responses_total{ "+chatPath+" 200}"])
	require.Equal(t, 1, counts["http_request_duration_seconds{POST "+chatPath+"}"])
}

// telemetry.md, section 4.1: the duration is that to the head, however long the body takes.
func TestHTTPMetricsMeasureToTheHead(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{})
	r := &rig{metrics: m}
	x := &pipeline.Exchange{Client: chat(), Arrived: time.Now().Add(-time.Hour)}
	require.NoError(t, assembled(t, HTTPMetrics(chatPath, m), last(200, nil)).Run(x))
	require.InDelta(t, x.HeadAt().Sub(x.Arrived).Seconds(), r.sum(t, "smg_http_request_duration_seconds"), 1e-6)
}

// telemetry.md, section 2: the label is the route's template and one of eight methods; an error code is the gateway's own.
func TestHTTPMetricsHaveBoundedLabels(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{})
	r := &rig{metrics: m}
	chain := assembled(t, HTTPMetrics("/v1/models/{model}", m), last(200, nil))
	for _, method := range []string{"GET", "POST", "BREW", "get"} {
		c := post("/v1/models/"+method, "")
		c.method = method
		require.NoError(t, chain.Run(&pipeline.Exchange{Client: c}))
	}
	require.Equal(t, map[string]int{
		"http_requests_total{GET /v1/models/{model}}": 1, "http_requests_total{POST /v1/models/{model}}": 1,
		"http_requests_total{OTHER /v1/models/{model}}": 2,
	}, r.family(t, "http_requests_total"))
}

// telemetry.md, section 2: a worker's header never becomes a label.
func TestAWorkersErrorCodeIsNoLabel(t *testing.T) {
	r := newRig(t, 1, attempts(1))
	r.engines[0].SetFaults(engine.Fault{Status: 500, Headers: engine.Headers{"X-SMG-Error-Code: evil-123"}})
	c := r.ask(chat())
	require.Equal(t, 500, c.status)
	require.Empty(t, c.code())
	require.NotContains(t, script(r.counted(t)), "evil")
}

// telemetry.md, section 2: models that nobody serves make no series of their own (DECISIONS 43).
func TestUnservedModelsShareALabel(t *testing.T) {
	r := newRig(t, 1, attempts(1))
	require.True(t, r.registry.Remove(r.workers[0]))
	for _, model := range []string{"x", "y", "z"} {
		require.Equal(t, 503, r.ask(post(chatPath, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`)).status)
	}
	require.Equal(t, map[string]int{"router_requests_total{regular http chat other http false}": 3}, r.family(t, "router_requests_total"))
}

// DESIGN, section 1: what runs in the background is declared by the stage that needs it, and ends with the runtime.
func TestHTTPMetricsDeclareTheirSampling(t *testing.T) {
	m := telemetry.NewMetrics(telemetry.Options{})
	first, second := HTTPMetrics("/a", m), HTTPMetrics("/b", m)
	uses := pipeline.ContractOf(first).Uses
	require.Len(t, uses, 1)
	require.Equal(t, "metrics", uses[0].Name())
	require.Equal(t, uses, pipeline.ContractOf(second).Uses, "all routes share one")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	ready := make(chan struct{})
	go func() { over <- uses[0].Run(ctx, func() { close(ready) }) }()
	<-ready
	cancel()
	require.NoError(t, <-over)
}
