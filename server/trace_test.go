package server

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "b7ad6b7169203331"
)

// traced starts a gateway that sends its spans to a collector.
func traced(t *testing.T, configure func(*Config), engines ...*engine.Running) (*running, *collector) {
	t.Helper()
	c := startCollector(t)
	g := start(t, func(cfg *Config) {
		cfg.EnableTrace, cfg.OTLPTracesEndpoint = true, c.address
		if configure != nil {
			configure(cfg)
		}
	}, engines...)
	return g, c
}

// of gives the spans of a kind, once that many have come.
func (c *collector) of(t *testing.T, kind tracepb.Span_SpanKind, n int) (found []*tracepb.Span) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = nil
		for _, s := range c.spans {
			if s.Kind == kind {
				found = append(found, s)
			}
		}
		return len(found) >= n
	}, patience, 5*time.Millisecond, "%d spans of kind %v", n, kind)
	require.Len(t, found, n)
	return found
}

func (c *collector) server(t *testing.T) *tracepb.Span {
	t.Helper()
	return c.of(t, tracepb.Span_SPAN_KIND_SERVER, 1)[0]
}

func (c *collector) client(t *testing.T) *tracepb.Span {
	t.Helper()
	return c.of(t, tracepb.Span_SPAN_KIND_CLIENT, 1)[0]
}

// attributes are those of a span, as Go values.
func attributes(s *tracepb.Span) map[string]any {
	values := map[string]any{}
	for _, a := range s.Attributes {
		values[a.Key] = plain(a.Value)
	}
	return values
}

func plain(v *commonpb.AnyValue) any {
	switch v := v.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_ArrayValue:
		var list []any
		for _, e := range v.ArrayValue.Values {
			list = append(list, plain(e))
		}
		return list
	}
	return nil
}

func events(s *tracepb.Span) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// telemetry.md, section 6.3
func TestATraceGoesThroughTheGateway(t *testing.T) {
	tests := []struct {
		name, sent, state string
		trace, flag       string // what the worker gets; "" for a new trace
		spans             bool
	}{
		{"a trace that the client records is continued", "00-" + traceID + "-" + parent + "-01", "vendor=1", traceID, "01", true},
		{"one that it does not record is passed on and not recorded", "00-" + traceID + "-" + parent + "-00", "", traceID, "00", false},
		{"a client that traces nothing begins a trace here", "", "", "", "01", true},
		{"what cannot be read begins a new one and is no error", "00-nonsense-01", "vendor=1", "", "01", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			g, c := traced(t, nil, e)
			headers := []string{"Baggage", "tier=gold"}
			if tt.sent != "" {
				headers = append(headers, "Traceparent", tt.sent)
			}
			if tt.state != "" {
				headers = append(headers, "Tracestate", tt.state)
			}
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, headers...).StatusCode)
			got := lastInference(t, e)
			require.Equal(t, []string{"tier=gold"}, got.Values("baggage"))
			require.Len(t, got.Values("traceparent"), 1)
			parts := strings.Split(got.Values("traceparent")[0], "-")
			require.Len(t, parts, 4)
			require.Equal(t, tt.flag, parts[3])
			if tt.trace != "" {
				require.Equal(t, tt.trace, parts[1])
				require.Equal(t, tt.state, strings.Join(got.Values("tracestate"), ","))
			} else {
				require.NotEqual(t, traceID, parts[1])
				require.Empty(t, got.Values("tracestate"))
			}
			require.NotEqual(t, parent, parts[2])
			g.end(t)
			if !tt.spans {
				require.Empty(t, c.spans)
				return
			}
			server, client := c.server(t), c.client(t)
			require.Equal(t, parts[1], hex.EncodeToString(server.TraceId))
			require.Equal(t, parts[1], hex.EncodeToString(client.TraceId))
			require.Equal(t, parts[2], hex.EncodeToString(client.SpanId))
			require.Equal(t, server.SpanId, client.ParentSpanId)
			if tt.trace != "" {
				require.Equal(t, parent, hex.EncodeToString(server.ParentSpanId))
				require.Equal(t, tt.state, server.TraceState)
			} else {
				require.Empty(t, server.ParentSpanId)
			}
		})
	}
}

// end stops the gateway in the middle of a test; its spans are sent then.
func (g *running) end(t *testing.T) {
	t.Helper()
	g.stop <- os.Interrupt
	select {
	case err := <-g.done:
		require.NoError(t, err)
		g.done <- nil // for the clean-up
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
}

func lastInference(t *testing.T, e *engine.Running) engine.Request {
	t.Helper()
	all := e.Requests()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Method == http.MethodPost {
			return all[i]
		}
	}
	t.Fatal("the engine got no request")
	return engine.Request{}
}

// telemetry.md, section 6.3: with tracing off a client's context is none of the gateway's business.
func TestWithoutTracingTheTraceContextPassesUntouched(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	g.post(t, chatPath, chat, "Traceparent", "what the client likes", "Tracestate", "a=1", "Baggage", "b=2")
	got := lastInference(t, e)
	require.Equal(t, []string{"what the client likes"}, got.Values("traceparent"))
	require.Equal(t, []string{"a=1"}, got.Values("tracestate"))
	require.Equal(t, []string{"b=2"}, got.Values("baggage"))
}

// telemetry.md, section 6.4
func TestSpansSayWhatARequestWas(t *testing.T) {
	e := engine.Start(t, engine.Config{Engine: engine.VLLM})
	g, c := traced(t, nil, e)
	body := `{"model":"m1","messages":[{"role":"user","content":"my secret prompt"}],"max_tokens":7,"temperature":0.5,"top_p":0.9,` +
		`"stop":["END","STOP"],"seed":42,"stream":true,"stream_options":{"include_usage":true}}`
	g.post(t, chatPath+"?api_key=hidden", body, "User-Agent", "tester", "Authorization", "Bearer hidden", "X-Request-Id", "r-1")
	g.end(t)

	server, client := c.server(t), c.client(t)
	require.Equal(t, "POST "+chatPath, server.Name)
	require.Equal(t, "chat m1", client.Name)
	host, port, _ := strings.Cut(strings.TrimPrefix(g.URL, "http://"), ":")
	own := attributes(server)
	for key, want := range map[string]any{
		"http.request.method": "POST", "http.route": chatPath, "url.path": chatPath, "url.scheme": "http",
		"server.address": host, "network.protocol.version": "1.1", "client.address": "127.0.0.1", "user_agent.original": "tester",
		"http.response.status_code": int64(200), "smg.request_id": "r-1", "smg.attempts": int64(1), "smg.streaming": true,
		"smg.body.bytes": int64(len(body)), "smg.body.path": "buffered", "smg.body.reason": "retryable",
	} {
		require.Equal(t, want, own[key], key)
	}
	require.EqualValues(t, port, fmt.Sprint(own["server.port"]))
	upstream := attributes(client)
	for key, want := range map[string]any{
		"http.request.method": "POST", "url.full": e.URL + chatPath, "http.response.status_code": int64(200), "smg.worker": e.URL,
		"smg.worker.type": "regular", "smg.attempt": int64(1), "smg.policy": g.cfg.Policy, "smg.workers.total": int64(1),
	} {
		require.Equal(t, want, upstream[key], key)
	}
	require.NotContains(t, upstream, "http.request.resend_count")
	for _, of := range []map[string]any{own, upstream} {
		for key, want := range map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "m1", "gen_ai.response.model": "m1",
			"gen_ai.request.max_tokens": int64(7), "gen_ai.request.temperature": 0.5, "gen_ai.request.top_p": 0.9,
			"gen_ai.request.seed": int64(42), "gen_ai.request.stop_sequences": []any{"END", "STOP"},
			"gen_ai.response.finish_reasons": []any{"length"},
		} {
			require.Equal(t, want, of[key], key)
		}
		require.NotEmpty(t, of["gen_ai.response.id"])
		require.Positive(t, of["gen_ai.usage.output_tokens"])
	}
	require.Contains(t, events(client), "gen_ai.first_token")
	require.Contains(t, strings.Join(tracedStages(c), " "), "smg.policy")
	for _, s := range c.spans {
		require.NotContains(t, s.String(), "secret")
		require.NotContains(t, s.String(), "hidden")
	}
}

// tracedStages are the stages that a collector heard of, as events or as spans of their own.
func tracedStages(c *collector) (names []string) {
	for _, s := range c.spans {
		if s.Kind == tracepb.Span_SPAN_KIND_INTERNAL {
			names = append(names, s.Name)
		}
		names = append(names, events(s)...)
	}
	return names
}

// telemetry.md, section 6.4: every stage of the chain is in the trace.
func TestEveryStageIsInTheTrace(t *testing.T) {
	g, c := traced(t, nil, engine.Start(t, engine.Config{}))
	g.post(t, chatPath, chat)
	g.end(t)
	seen := tracedStages(c)
	for _, s := range g.gateway.runtime.Chain("POST " + chatPath).Stages() {
		require.Contains(t, seen, "smg."+s.Name())
	}
}

// telemetry.md, section 6.4
func TestEveryAttemptIsASpan(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	e.SetFaults(engine.Fault{Status: 503, Count: 1})
	g, c := traced(t, nil, e)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	g.end(t)
	legs := c.of(t, tracepb.Span_SPAN_KIND_CLIENT, 2)
	first, second := attributes(legs[0]), attributes(legs[1])
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, legs[0].Status.GetCode())
	require.Equal(t, "503", first["error.type"])
	require.NotContains(t, first, "http.request.resend_count")
	require.Equal(t, int64(1), second["http.request.resend_count"])
	require.Equal(t, int64(2), second["smg.attempt"])
	require.Contains(t, events(legs[1]), "smg.retry")
	require.Equal(t, tracepb.Status_STATUS_CODE_UNSET, legs[1].Status.GetCode())
	require.Equal(t, int64(2), attributes(c.server(t))["smg.attempts"])
	require.Contains(t, tracedStages(c), "smg.retry") // the pause
}

// telemetry.md, section 6.4
func TestWhoIsToBlameFails(t *testing.T) {
	failed, fine := tracepb.Status_STATUS_CODE_ERROR, tracepb.Status_STATUS_CODE_UNSET
	tests := []struct {
		name           string
		fault          engine.Fault
		body           string
		server, client tracepb.Status_StatusCode
		errorType      any // of the server span
	}{
		{"a worker's 500 is an error on both sides", engine.Fault{Status: 500}, chat, failed, failed, "500"},
		{"a worker's 400 is an error of the client span alone", engine.Fault{Status: 400}, chat, fine, failed, nil},
		{"a stream that breaks is an error although its head was good", engine.Fault{CutAfterEvents: new(1)}, chats, failed, failed, "stream_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			e.SetFaults(tt.fault)
			g, c := traced(t, func(cfg *Config) { cfg.DisableRetries = true }, e)
			g.post(t, chatPath, tt.body)
			g.end(t)
			require.Equal(t, tt.server, c.server(t).Status.GetCode())
			require.Equal(t, tt.client, c.client(t).Status.GetCode())
			require.Equal(t, tt.errorType, attributes(c.server(t))["error.type"])
		})
	}
}

// telemetry.md, section 6.2
func TestProbesAreNotTraced(t *testing.T) {
	g, c := traced(t, nil, engine.Start(t, engine.Config{}))
	for _, path := range []string{"/health", "/liveness", "/readiness", "/nowhere"} {
		g.get(t, path)
	}
	g.get(t, "/v1/models")
	g.end(t)
	require.Equal(t, "GET /v1/models", c.server(t).Name)
}

// telemetry.md, section 6.2: a request that the gateway refuses is traced without a leg.
func TestARefusedRequestIsTraced(t *testing.T) {
	g, c := traced(t, nil, engine.Start(t, engine.Config{}))
	g.post(t, chatPath, `{"model":"m1"}`)
	g.end(t)
	s := c.server(t)
	require.Equal(t, int64(400), attributes(s)["http.response.status_code"])
	require.Equal(t, "missing_required_parameter", attributes(s)["smg.error_code"])
	require.Empty(t, c.of(t, tracepb.Span_SPAN_KIND_CLIENT, 0))
}

// telemetry.md, section 6.1: a collector that is not there harms nobody.
func TestWithoutACollectorRequestsAreServed(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, func(cfg *Config) { cfg.EnableTrace, cfg.OTLPTracesEndpoint = true, "127.0.0.1:1" }, engine.Start(t, engine.Config{}))
	for range 5 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
}

// telemetry.md, section 7.3: the lines of a request name its trace.
func TestLogLinesNameTheTrace(t *testing.T) {
	g, c := traced(t, func(cfg *Config) { cfg.LogJSON = true }, engine.Start(t, engine.Config{}))
	g.post(t, chatPath, chat)
	g.end(t)
	s := c.server(t)
	require.Contains(t, g.Log.String(), `"trace_id":"`+hex.EncodeToString(s.TraceId)+`","span_id":"`+hex.EncodeToString(s.SpanId)+`"`)
}

// telemetry.md, section 6.1
func TestTheResourceOfSpans(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	t.Setenv("POD_NAME", "smg-0")
	g, c := traced(t, nil, engine.Start(t, engine.Config{}))
	g.post(t, chatPath, chat)
	g.end(t)
	c.server(t)
	values := map[string]any{}
	for _, a := range c.resource {
		values[a.Key] = plain(a.Value)
	}
	require.Equal(t, "smg", values["service.name"])
	require.Equal(t, "test", values["deployment.environment"])
	require.Equal(t, "smg-0", values["k8s.pod.name"])
	require.NotEmpty(t, values["service.instance.id"])
}

// telemetry.md, sections 4.2 and 5: without tracing, the stages of one request in 64 are timed, the first one among them.
func TestStagesAreTimedWithoutTracing(t *testing.T) {
	g := start(t, nil, engine.Start(t, engine.Config{}))
	for range timedOf + 1 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	}
	resp, err := http.Get(g.Metrics)
	require.NoError(t, err)
	defer resp.Body.Close()
	scraped, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, stage := range []string{"body", "policy", "forward"} {
		require.Contains(t, string(scraped), `smg_router_stage_duration_seconds_count{router_type="http",stage="`+stage+`"} 2`)
	}
}

const timedOf = 64

// telemetry.md, sections 1 and 5: histograms of how long requests take name the trace of one that is recorded, to scrapers that ask
// for OpenMetrics.
func TestHistogramsNameTheTrace(t *testing.T) {
	g, _ := traced(t, nil, engine.Start(t, engine.Config{}))
	families := []string{
		"smg_http_request_duration_seconds", "smg_router_request_duration_seconds", "smg_router_generation_duration_seconds",
		"smg_router_ttft_seconds", "smg_client_ttft_seconds",
	}
	const open, exemplar = "application/openmetrics-text; version=1.0.0", `# {trace_id="` + traceID + `"}`

	require.Equal(t, http.StatusOK, g.post(t, chatPath, chats, "Traceparent", "00-"+traceID+"-"+parent+"-00").StatusCode)
	kind, page := g.scrapeAs(t, open)
	require.Equal(t, open+"; charset=utf-8", kind)
	require.NotContains(t, page, traceID, "a trace that nobody records is not to be found")

	require.Equal(t, http.StatusOK, g.post(t, chatPath, chats, "Traceparent", "00-"+traceID+"-"+parent+"-01").StatusCode)
	_, page = g.scrapeAs(t, open)
	found := map[string]int{}
	for line := range strings.Lines(page) {
		if strings.Contains(line, exemplar) {
			found[line[:strings.Index(line, "_bucket{")]]++
		}
	}
	for _, family := range families {
		require.Equal(t, 1, found[family], family)
	}
	require.Len(t, found, len(families))

	kind, page = g.scrapeAs(t, "")
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", kind)
	require.Contains(t, page, families[0])
	require.NotContains(t, page, traceID)
}

// scrapeAs gives the metrics in the form that is asked for, and its content type.
func (g *running) scrapeAs(t *testing.T, accept string) (kind, page string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Metrics, nil)
	require.NoError(t, err)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.Header.Get("Content-Type"), string(body)
}
