package telemetry

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// collectorProcess makes the test binary a collector that keeps nothing, and does nothing else: what it costs is not measured.
const collectorProcess = "SMG_TEST_COLLECTOR_PROCESS"

type discarding struct {
	collecting.UnimplementedTraceServiceServer
}

func (discarding) Export(context.Context, *collecting.ExportTraceServiceRequest) (*collecting.ExportTraceServiceResponse, error) {
	return &collecting.ExportTraceServiceResponse{}, nil
}

// collect serves until standard input ends.
func collect() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer()
	collecting.RegisterTraceServiceServer(s, discarding{})
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	_ = s.Serve(listener)
}

func startCollector(b *testing.B) (address string) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), collectorProcess+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		require.NoError(b, cmd.Wait())
	})
	lines := bufio.NewScanner(out)
	require.True(b, lines.Scan())
	return lines.Text()
}

// What the spans of the benchmark have, about what those of a chat request have.
const (
	serverTexts, serverNumbers = 11, 5
	clientTexts, clientNumbers = 12, 8
	clientEvents               = 18
)

// keys are names of attributes and events, of the usual length.
var keys = func() (keys [clientEvents + clientNumbers]string) {
	for i := range keys {
		keys[i] = "gen_ai.request.key_" + strconv.Itoa(i)
	}
	return keys
}()

// BenchmarkSpan is a server span with 16 attributes and a client span below it with 20 attributes and 18 events, all sent to a
// collector: by the code of this package, and by the OpenTelemetry SDK with its batch processor, set to the same batches. It is why
// the spans are our own. What is reported is the CPU time of this process, sending included.
func BenchmarkSpan(b *testing.B) {
	for _, tt := range []struct {
		name  string
		start func(b *testing.B, endpoint string) (request func(at time.Time), flush func())
	}{{"own", ownSpans}, {"sdk", sdkSpans}} {
		b.Run(tt.name, func(b *testing.B) {
			request, flush := tt.start(b, startCollector(b))
			at := time.Now()
			request(at)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				request(at)
			}
			flush()
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

func ownSpans(b *testing.B, endpoint string) (request func(at time.Time), flush func()) {
	m := newTestMetrics().Traces
	t, err := NewTracing(TracingOptions{Endpoint: endpoint, Version: "1.2.3", Metrics: m, Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	var server, client Span
	waiting := func() int {
		t.queue.mu.Lock()
		defer t.queue.mu.Unlock()
		return t.queue.waiting
	}
	request = func(at time.Time) {
		t.StartServer(&server, "POST /v1/chat/completions", at, noHeader)
		server.StartClient(&client, "chat m1", at)
		fill(&client.Attributes, clientTexts, clientNumbers)
		for _, name := range keys[:clientEvents] {
			client.Event(name, at)
		}
		client.End(at)
		fill(&server.Attributes, serverTexts, serverNumbers)
		server.End(at)
		client.Reset()
		server.Reset()
		for waiting() > spansWaiting-2 {
			time.Sleep(time.Millisecond) // a span that is dropped costs too little
		}
	}
	return request, func() {
		require.NoError(b, t.Close(b.Context()))
		require.Zero(b, testutil.ToFloat64(m.Dropped)+testutil.ToFloat64(m.Failed))
	}
}

func fill(a *Attributes, texts, numbers int) {
	for _, key := range keys[:texts] {
		a.Text(key, "a value of some length")
	}
	for i, key := range keys[texts : texts+numbers] {
		a.Number(key, int64(i)<<10)
	}
}

func sdkSpans(b *testing.B, endpoint string) (request func(at time.Time), flush func()) {
	exporter, err := otlptracegrpc.New(b.Context(), otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure())
	require.NoError(b, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxExportBatchSize(spansABatch),
		sdktrace.WithMaxQueueSize(spansWaiting), sdktrace.WithBatchTimeout(batchDelay), sdktrace.WithBlocking()))
	tracer := provider.Tracer("github.com/smg-go/smg")
	request = func(at time.Time) {
		when := oteltrace.WithTimestamp(at)
		ctx, server := tracer.Start(context.Background(), "POST /v1/chat/completions", when, oteltrace.WithSpanKind(oteltrace.SpanKindServer))
		_, client := tracer.Start(ctx, "chat m1", when, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
		client.SetAttributes(filled(clientTexts, clientNumbers)...)
		for _, name := range keys[:clientEvents] {
			client.AddEvent(name, when)
		}
		client.End(when)
		server.SetAttributes(filled(serverTexts, serverNumbers)...)
		server.End(when)
	}
	return request, func() { require.NoError(b, provider.Shutdown(b.Context())) }
}

func filled(texts, numbers int) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, texts+numbers)
	for _, key := range keys[:texts] {
		list = append(list, attribute.String(key, "a value of some length"))
	}
	for i, key := range keys[texts : texts+numbers] {
		list = append(list, attribute.Int64(key, int64(i)<<10))
	}
	return list
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
