package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// telemetry.md, section 6.1: what is said of the process, and who wins.
func TestResourceOfSpans(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		want map[string]string // beside service.instance.id
	}{
		{"nothing is said", nil, map[string]string{"service.name": "smg", "service.version": "1.2.3"}},
		{
			"OTEL_SERVICE_NAME names the service",
			[]string{"OTEL_SERVICE_NAME", "edge"},
			map[string]string{"service.name": "edge", "service.version": "1.2.3"},
		},
		{
			"OTEL_RESOURCE_ATTRIBUTES adds to what smg says, and wins",
			[]string{"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=9,service.name=front"},
			map[string]string{"service.name": "front", "service.version": "9", "deployment.environment.name": "test"},
		},
		{
			"OTEL_SERVICE_NAME wins over OTEL_RESOURCE_ATTRIBUTES",
			[]string{"OTEL_RESOURCE_ATTRIBUTES", "service.name=front", "OTEL_SERVICE_NAME", "edge"},
			map[string]string{"service.name": "edge", "service.version": "1.2.3"},
		},
		{
			"the pod is named, if Kubernetes tells",
			[]string{"POD_NAME", "smg-0", "POD_NAMESPACE", "llm"},
			map[string]string{"service.name": "smg", "service.version": "1.2.3", "k8s.pod.name": "smg-0", "k8s.namespace.name": "llm"},
		},
		{
			"OTEL_RESOURCE_ATTRIBUTES wins over the pod's name",
			[]string{"POD_NAME", "smg-0", "OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=other"},
			map[string]string{"service.name": "smg", "service.version": "1.2.3", "k8s.pod.name": "other"},
		},
		{
			"what can be read of a broken variable is used",
			[]string{"OTEL_RESOURCE_ATTRIBUTES", "zone=a,broken,rack=b%20c"},
			map[string]string{"service.name": "smg", "service.version": "1.2.3", "zone": "a", "rack": "b c"},
		},
		{
			"what is no UTF-8 does not make a collector refuse everything",
			[]string{"OTEL_RESOURCE_ATTRIBUTES", "zone=%ff", "POD_NAME", "smg\xc3"},
			map[string]string{"service.name": "smg", "service.version": "1.2.3", "zone": "\uFFFD", "k8s.pod.name": "smg\uFFFD"},
		},
	}
	instances := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t, tt.env...)
			r := receive(t, &receiver{})
			tr := trace(t, r.address)
			tr.end(1)
			require.NoError(t, tr.Close(t.Context()))
			require.Len(t, r.frames, 1)
			got := map[string]string{}
			for _, a := range r.frames[0].Resource.Attributes {
				got[a.Key] = a.Value.GetStringValue()
			}
			require.NoError(t, uuid.Validate(got["service.instance.id"]))
			instances[got["service.instance.id"]] = true
			delete(got, "service.instance.id")
			require.Equal(t, tt.want, got)
			scope := r.frames[0].ScopeSpans[0].Scope
			require.Equal(t, []string{"github.com/smg-go/smg", "1.2.3"}, []string{scope.Name, scope.Version})
		})
	}
	require.Len(t, instances, len(tests), "every process is an instance of its own")
}

// telemetry.md, section 6.1
func TestTracingThatIsDisabled(t *testing.T) {
	for value, disabled := range map[string]bool{"true": true, "TRUE": true, "false": false, "1": false, "": false} {
		t.Run(value, func(t *testing.T) {
			quietEnv(t, "OTEL_SDK_DISABLED", value)
			tr, err := NewTracing(TracingOptions{Metrics: newTestMetrics().Traces})
			require.NoError(t, err)
			require.Equal(t, disabled, tr == nil)
			require.NoError(t, tr.Close(t.Context()))
		})
	}
}

// telemetry.md, section 6.1: the flag wins over the variables. ADDRESS stands for the collector's, NOBODY for one where nobody listens.
func TestEndpointOfAGRPCCollector(t *testing.T) {
	tests := []struct {
		name, endpoint string
		env            []string
	}{
		{"host and port", "ADDRESS", nil},
		{"a URL", "http://ADDRESS", nil},
		{"a URL that ends in a slash", "http://ADDRESS/", nil},
		{"the general variable", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://ADDRESS"}},
		{"the general variable without a scheme", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "ADDRESS"}},
		{
			"the variable for traces wins over the general one", "",
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://NOBODY", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://ADDRESS"},
		},
		{
			"the variable for traces without a scheme", "",
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://NOBODY", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ADDRESS"},
		},
		{
			"the flag wins over both", "ADDRESS",
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://NOBODY", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://NOBODY"},
		},
		{"the protocol is named", "ADDRESS", []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}},
		{
			"the protocol for traces wins over the general one", "ADDRESS",
			[]string{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"},
		},
		{"spans are compressed", "ADDRESS", []string{"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := receive(t, &receiver{})
			quietEnv(t, addressed(r.address, tt.env)...)
			setEnv(t, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=general,tenant=a%20b")
			tr := trace(t, addressed(r.address, []string{tt.endpoint})[0])
			tr.end(3)
			require.NoError(t, tr.Close(t.Context()))
			require.Len(t, r.spans(), 3)
			require.Equal(t, []string{"general"}, r.headers.Get("api-key"))
			require.Equal(t, []string{"a b"}, r.headers.Get("tenant"))
		})
	}
}

// addressed puts addresses in.
func addressed(address string, texts []string) (done []string) {
	replace := strings.NewReplacer("ADDRESS", address, "NOBODY", "127.0.0.1:1")
	for _, text := range texts {
		done = append(done, replace.Replace(text))
	}
	return done
}

// httpReceiver is a collector that is spoken to in HTTP.
type httpReceiver struct {
	mu      sync.Mutex
	paths   []string
	headers http.Header // of the last batch
	spans   []*tracepb.Span
}

func (r *httpReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var batch collecting.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &batch)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths, r.headers = append(r.paths, req.Method+" "+req.URL.Path), req.Header
	for _, frame := range batch.ResourceSpans {
		for _, scope := range frame.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// telemetry.md, section 6.1; the OpenTelemetry protocol exporter's specification of endpoints
func TestEndpointOfAnHTTPCollector(t *testing.T) {
	tests := []struct {
		name, endpoint string
		env            []string
		path           string
	}{
		{"host and port", "ADDRESS", nil, "/v1/traces"},
		{"a URL", "http://ADDRESS", nil, "/v1/traces"},
		{"a URL that ends in a slash", "http://ADDRESS/", nil, "/v1/traces"},
		{"a URL with a path is taken as it is", "http://ADDRESS/v1/traces", nil, "/v1/traces"},
		{"the general variable", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://ADDRESS/base"}, "/base/v1/traces"},
		{"the general variable without a scheme", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "ADDRESS"}, "/v1/traces"},
		{
			"the variable for traces is taken as it is", "",
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://NOBODY", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://ADDRESS/my/way"},
			"/my/way",
		},
		{"the flag wins", "ADDRESS", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://NOBODY/x"}, "/v1/traces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &httpReceiver{}
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			address := server.Listener.Addr().String()
			quietEnv(t, addressed(address, tt.env)...)
			setEnv(t, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
			tr := trace(t, addressed(address, []string{tt.endpoint})[0])
			for range 3 {
				s := fresh(tr.Tracing)
				s.Text("k", "v")
				s.End(time.Unix(9, 10))
			}
			require.NoError(t, tr.Close(t.Context()))
			tr.counted(t, 3, 0, 0)
			require.Equal(t, "POST "+tt.path, r.paths[0])
			require.Equal(t, "secret", r.headers.Get("Api-Key"))
			require.Equal(t, "application/x-protobuf", r.headers.Get("Content-Type"))
			require.Len(t, r.spans, 3)
			require.Equal(t, "v", r.spans[0].Attributes[0].Value.GetStringValue())
		})
	}
}

// telemetry.md, section 6.1
func TestTracingThatCannotBeMade(t *testing.T) {
	for _, protocol := range []string{"http/json", "udp"} {
		t.Run(protocol, func(t *testing.T) {
			quietEnv(t, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			tr, err := NewTracing(TracingOptions{Metrics: newTestMetrics().Traces})
			require.Nil(t, tr)
			require.EqualError(t, err, `OTEL_EXPORTER_OTLP_PROTOCOL is "`+protocol+`", but it must be grpc or http/protobuf`)
		})
	}
}

// telemetry.md, section 6.1: where spans go if nobody says it. Nothing is sent there in a test, so the rule is looked at.
func TestEndpointWithoutAWord(t *testing.T) {
	quietEnv(t)
	require.Equal(t, "http://localhost:4317", endpointURL("", "localhost:4317"))
	require.Equal(t, "https://collector:443", endpointURL("https://collector:443", "localhost:4317"))
	require.Equal(t, "http://[::1]:4317", endpointURL("[::1]:4317", "localhost:4317"))
}
