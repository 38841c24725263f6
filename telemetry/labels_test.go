package telemetry

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 2; DECISIONS.md, row 43
func TestModelLabel(t *testing.T) {
	tests := []struct {
		name, model string
		known       bool
		want        string
	}{
		{"a model that is served keeps its name", "llama", true, "llama"},
		{"a model nobody serves is other, whatever its name", "garbage", false, "other"},
		{"no model is unknown", "", false, "unknown"},
		{"no model is unknown also if a worker serves anything", "", true, "unknown"},
		{"a name that is not UTF-8 becomes one that is", "a\xffb", true, "a\uFFFDb"},
		{"a model may be called other", "other", true, "other"},
	}
	m := newTestMetrics()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, m.ModelLabel(tt.model, tt.known)) })
	}
}

// telemetry.md, section 2: 1030 models, at most 1025 values
func TestModelsKeepTheirLabelsAndLaterOnesAreOther(t *testing.T) {
	m := newTestMetrics()
	for i := range 1030 {
		label := m.ModelLabel(fmt.Sprintf("m%d", i), true)
		m.Workers.Selections(WorkerRegular, "http", label, "random").Inc()
	}
	require.Equal(t, "m0", m.ModelLabel("m0", true), "the first are never evicted")
	require.Equal(t, "m1023", m.ModelLabel("m1023", true))
	require.Equal(t, "other", m.ModelLabel("m1024", true))

	all := series(t, m, "smg_worker_selection_total")
	require.Len(t, all, 1025)
	require.Equal(t, 6.0, all["connection_mode=http,model=other,policy=random,worker_type=regular"])
}

// The set is one for all metrics, and a name that reaches a handle without ModelLabel is bounded all the same.
func TestOneSetOfModelsForAllMetrics(t *testing.T) {
	m := newTestMetrics()
	for i := range 1024 {
		m.ModelLabel(fmt.Sprintf("m%d", i), true)
	}
	require.Same(t, m.Router.Series("other", EndpointChat), m.Router.Series("late", EndpointChat))
	require.Same(t, m.Router.Series("unknown", EndpointChat), m.Router.Series("", EndpointChat))
	m.Workers.Selections(WorkerRegular, "http", "late", "random").Inc()
	require.Contains(t, series(t, m, "smg_worker_selection_total"), "connection_mode=http,model=other,policy=random,worker_type=regular")
	w := m.Workers.Add("http://w:1")
	w.Requests("late").Inc()
	w.Requests("later").Inc()
	require.Equal(t, map[string]float64{"model=other,worker=http://w:1": 2}, series(t, m, "smg_worker_requests_total"))
}

func TestModelLabelsFromManyGoroutines(t *testing.T) {
	m := newTestMetrics()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				m.Router.Series(m.ModelLabel(fmt.Sprintf("m%d", (i+g)*7%1500), true), EndpointChat).Requests(true).Inc()
			}
		})
	}
	all.Wait()
	sum := 0.0
	for _, v := range series(t, m, "smg_router_requests_total") {
		sum += v
	}
	require.Equal(t, 2400.0, sum, "two handles for one series would lose nothing, a lost handle would")
	require.LessOrEqual(t, m.models.known.len(), maxModels)
}

// telemetry.md, section 2
func TestMethodLabel(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"} {
		require.Equal(t, method, MethodLabel(method))
	}
	for _, method := range []string{"", "get", "TRACE", "X48AF", "OTHER"} {
		require.Equal(t, "OTHER", MethodLabel(method))
	}
}

// telemetry.md, section 4.2
func TestEndpointOf(t *testing.T) {
	want := map[string]string{
		"/v1/chat/completions": "chat", "/generate": "generate", "/v1/completions": "completions", "/v1/responses": "responses",
		"/v1/messages": "messages", "/v1/embeddings": "embeddings", "/v1/classify": "classify", "/rerank": "rerank", "/v1/rerank": "rerank",
		"/v1/audio/transcriptions": "audio_transcriptions", "/v1/realtime": "realtime", "/v1/realtime/sessions": "realtime_sessions",
		"/v1/realtime/client_secrets": "realtime_client_secrets", "/v1/realtime/transcription_sessions": "realtime_transcription",
		"/v1/models": "other", "other": "other", "": "other",
	}
	for path, label := range want {
		require.Equal(t, label, EndpointOf(path), path)
		require.Equal(t, label, endpoints[endpointIndex(label)], "every label has a place")
	}
}
