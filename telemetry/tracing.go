package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// TracingOptions are the settings of [NewTracing]. Where one is not set, the standard OTEL_ variables count, then the default.
type TracingOptions struct {
	Endpoint string        // of an OTLP collector: host:port, or a URL whose scheme says whether the connection is encrypted; "": localhost, port 4317 or 4318
	Ratio    *float64      // share of the traces that begin here that are recorded, 0 to 1; nil: all
	Version  string        // of the program
	Metrics  *TraceMetrics // counts spans
	Log      *slog.Logger  // gets failures of the export, at most one a minute
}

// Tracing makes spans and sends them to a collector in the background, never in the way of a request: what the collector does
// not take is dropped and counted.
type Tracing struct {
	client  otlptrace.Client
	queue   *spanQueue
	sampler sampler
	stop    sync.Once
}

// NewTracing makes a tracing that sends by OTLP, and begins to send. It does not wait for the collector, nor fail without one; the
// error is about settings. It returns nil, which is a Tracing that is off, if OTEL_SDK_DISABLED says so.
func NewTracing(o TracingOptions) (*Tracing, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	sampler, err := newSampler(o.Ratio)
	if err != nil {
		return nil, err
	}
	client, err := newTraceClient(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.Background()); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	t := &Tracing{client: client, sampler: sampler}
	scope := &commonpb.InstrumentationScope{Name: "github.com/smg-go/smg", Version: o.Version}
	t.queue = &spanQueue{client: client, metrics: o.Metrics, log: o.Log, frames: newSpanFrames(traceResource(o.Version), scope)}
	t.queue.start()
	return t, nil
}

// newTraceClient makes the client of the protocol that OTEL_EXPORTER_OTLP_PROTOCOL names, gRPC if it names none.
func newTraceClient(endpoint string) (otlptrace.Client, error) {
	switch protocol := firstEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "grpc":
		options := []otlptracegrpc.Option{otlptracegrpc.WithDialOption(batchDialing()...)}
		if url := endpointURL(endpoint, "localhost:4317"); url != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(url))
		}
		return otlptracegrpc.NewClient(options...), nil
	case "http/protobuf":
		var options []otlptracehttp.Option
		if url := endpointURL(endpoint, "localhost:4318"); url != "" {
			options = append(options, otlptracehttp.WithEndpointURL(withTracesPath(url)))
		}
		return otlptracehttp.NewClient(options...), nil
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, but it must be grpc or http/protobuf", protocol)
	}
}

// endpointURL is where spans go, "" if the OTEL_ variables say it in a form that the library reads. Of a variable, as of a flag,
// host:port is enough: the library would ignore that and use its own default.
func endpointURL(endpoint, usual string) string {
	if endpoint == "" {
		named := firstEnv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
		if strings.Contains(named, "://") {
			return ""
		}
		endpoint = cmp.Or(named, usual)
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return endpoint
}

// withTracesPath adds the usual path to a URL that has none.
func withTracesPath(url string) string {
	_, behind, _ := strings.Cut(url, "://")
	if _, path, _ := strings.Cut(behind, "/"); path != "" {
		return url
	}
	return strings.TrimSuffix(url, "/") + "/v1/traces"
}

func firstEnv(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// traceResource describes this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func traceResource(version string) *resourcepb.Resource {
	own := []attribute.KeyValue{
		attribute.String("service.name", "smg"),
		attribute.String("service.version", version),
		attribute.String("service.instance.id", uuid.NewString()),
	}
	for key, name := range map[string]string{"k8s.pod.name": "POD_NAME", "k8s.namespace.name": "POD_NAMESPACE"} {
		if value := os.Getenv(name); value != "" {
			own = append(own, attribute.String(key, value))
		}
	}
	// An error is about a variable that cannot be read in part; what can be read of it is used.
	r, _ := resource.New(context.Background(), resource.WithAttributes(own...), resource.WithFromEnv())
	described := &resourcepb.Resource{}
	for _, a := range r.Attributes() {
		value := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: validText(a.Value.String())}}
		described.Attributes = append(described.Attributes, &commonpb.KeyValue{Key: validText(string(a.Key)), Value: value})
	}
	return described
}

// Close sends what is left, for at most 5 s, and ends the tracing: spans that end later are dropped. The error is about what could
// not be sent in time. A second Close does nothing.
func (t *Tracing) Close(ctx context.Context) (err error) {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	t.queue.close(ctx)
	t.stop.Do(func() { err = t.client.Stop(ctx) })
	return err
}
