package engine

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// workers.md, section 14; engines/README.md
func TestRoutesThatTellTheEngine(t *testing.T) {
	tests := []struct {
		path         string
		sglang, vllm int
	}{
		{"/health", 200, 200},
		{"/health_generate", 200, 404},
		{"/v1/models", 200, 200},
		{"/version", 404, 200},
		{"/load", 404, 200},
		{"/server_info", 200, 404},
		{"/get_server_info", 200, 404},
		{"/model_info", 200, 404},
		{"/get_model_info", 200, 404},
		{"/v1/loads?include=core", 200, 404},
		{"/get_load", 200, 404},
		{"/flush_cache", 200, 404},
		{"/metrics", 200, 200},
		{"/v1/chat/completions", 405, 405},
		{"/nope", 404, 404},
	}
	sglang, vllm := Start(t, Config{}), Start(t, Config{Engine: VLLM})
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			resp, body := get(t, sglang.URL+tt.path)
			require.Equal(t, tt.sglang, resp.StatusCode, body)
			resp, body = get(t, vllm.URL+tt.path)
			require.Equal(t, tt.vllm, resp.StatusCode, body)
			if tt.vllm == 404 {
				require.Equal(t, `{"detail":"Not Found"}`, body)
			}
		})
	}
}

func TestHealthHasNoBodyAndNoHead(t *testing.T) {
	e := Start(t, Config{Engine: VLLM})
	resp, body := get(t, e.URL+"/health")
	require.Empty(t, body)
	require.Empty(t, resp.Header.Values("Content-Type"))
	resp, err := client.Head(e.URL + "/health")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 405, resp.StatusCode)
}

// workers.md, sections 14 and 15
func TestModelsAndSettings(t *testing.T) {
	e := Start(t, Config{Models: []string{"a", "b"}})
	_, body := get(t, e.URL+"/v1/models")
	data := decode(t, body)["data"].([]any)
	require.Len(t, data, 2)
	require.Equal(t, "a", data[0].(map[string]any)["id"])
	require.Equal(t, "sglang", data[0].(map[string]any)["owned_by"])

	_, body = get(t, e.URL+"/server_info")
	require.Equal(t, "a", decode(t, body)["served_model_name"])
	_, body = get(t, e.URL+"/model_info")
	require.Equal(t, true, decode(t, body)["is_generation"])

	_, body = get(t, Start(t, Config{Engine: VLLM}).URL+"/v1/models")
	require.Contains(t, body, `"owned_by":"vllm"`)
}

// load-signals.md, sections 3.1, 3.3 and 3.4
func TestLoadReportsShowWhatIsInFlight(t *testing.T) {
	for _, kind := range []Kind{SGLang, VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			e := Start(t, Config{Engine: kind, TTFT: time.Hour})
			nc, _ := dial(t, e)
			send(t, nc, rawPost("/v1/completions", `{"prompt":"`+strings.Repeat("abcd", 1024)+`"}`))
			eventually(t, "in flight", func() bool { return e.counters.held.Load() > 0 })
			names := map[string]float64{"sglang:num_running_reqs": 1, "sglang:num_queue_reqs": 0, "sglang:token_usage": 1024.0 / kvTokens}
			if kind == VLLM {
				names = map[string]float64{"vllm:num_requests_running": 1, "vllm:num_requests_waiting": 0, "vllm:kv_cache_usage_perc": 1024.0 / kvTokens}
			}
			_, body := get(t, e.URL+"/metrics")
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(body))
			require.NoError(t, err)
			for name, want := range names {
				require.Contains(t, families, name)
				require.InDelta(t, want, families[name].Metric[0].Gauge.GetValue(), 1e-9, name)
			}
			if kind == VLLM {
				return
			}
			_, body = get(t, e.URL+"/v1/loads")
			rank := decode(t, body)["loads"].([]any)[0].(map[string]any)
			require.EqualValues(t, 1, rank["num_running_reqs"])
			require.EqualValues(t, 1024, rank["num_used_tokens"])
			_, body = get(t, e.URL+"/get_load")
			require.Contains(t, body, `"num_reqs":1`)
		})
	}
}

func TestTheTokenRateIsThatSinceTheLastQuestion(t *testing.T) {
	var r tokenRate
	start := time.Now()
	require.Zero(t, r.read(100, start))
	require.Zero(t, r.read(200, start.Add(100*time.Millisecond)), "too soon to tell")
	require.EqualValues(t, 100, r.read(300, start.Add(2*time.Second)))
	require.EqualValues(t, 0, r.read(300, start.Add(4*time.Second)))
}

func TestTheKeyIsAskedForWhereRealEnginesAsk(t *testing.T) {
	tests := []struct {
		path         string
		sglang, vllm int // without the key
	}{
		{"/health", 200, 200},
		{"/metrics", 200, 200},
		{"/v1/models", 401, 401},
		{"/v1/loads", 401, 401}, // vLLM guards all of /v1, known or not
		{"/server_info", 401, 404},
		{"/version", 401, 200},
		{"/nope", 401, 404},
	}
	sglang, vllm := Start(t, Config{APIKey: "k1"}), Start(t, Config{Engine: VLLM, APIKey: "k1"})
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			for _, wrong := range []string{"", "k1", "Basic k1", "Bearer k2"} {
				require.Equal(t, tt.sglang, withAuth(t, sglang.URL+tt.path, wrong))
				require.Equal(t, tt.vllm, withAuth(t, vllm.URL+tt.path, wrong))
			}
			require.NotEqual(t, 401, withAuth(t, sglang.URL+tt.path, "Bearer k1"))
			require.NotEqual(t, 401, withAuth(t, vllm.URL+tt.path, "bearer k1"))
		})
	}
}

// withAuth returns the status of a GET with that Authorization.
func withAuth(t *testing.T, url, auth string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	drain(t, resp)
	return resp.StatusCode
}
