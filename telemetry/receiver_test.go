package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 30 * time.Second

// receiver is a collector: it serves the collector's own service and keeps what it gets.
type receiver struct {
	collecting.UnimplementedTraceServiceServer
	address string
	answer  func(ctx context.Context) (*collecting.ExportTraceServiceResponse, error) // nil: everything is taken

	mu      sync.Mutex
	frames  []*tracepb.ResourceSpans // one a batch
	headers metadata.MD              // of the last batch
}

// receive starts a receiver on loopback.
func receive(t testing.TB, r *receiver) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.address = listener.Addr().String()
	s := grpc.NewServer() // with its limit of 4 MiB a message, as a collector's
	collecting.RegisterTraceServiceServer(s, r)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return r
}

// Export takes a batch, if the answer says so.
func (r *receiver) Export(ctx context.Context, batch *collecting.ExportTraceServiceRequest) (*collecting.ExportTraceServiceResponse, error) {
	response := &collecting.ExportTraceServiceResponse{}
	if r.answer != nil {
		var err error
		if response, err = r.answer(ctx); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, batch.ResourceSpans...)
	r.headers, _ = metadata.FromIncomingContext(ctx)
	return response, nil
}

// batches are the spans that came, batch by batch.
func (r *receiver) batches() (batches [][]*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, frame := range r.frames {
		for _, scope := range frame.ScopeSpans {
			batches = append(batches, scope.Spans)
		}
	}
	return batches
}

// spans are the spans that came.
func (r *receiver) spans() (all []*tracepb.Span) {
	for _, b := range r.batches() {
		all = append(all, b...)
	}
	return all
}

// traced is a tracing under test, with what it counts and logs.
type traced struct {
	*Tracing
	metrics *TraceMetrics
	log     *output
}

// trace starts a tracing. What the environment of the test says of tracing does not count, what the test sets before does.
func trace(t testing.TB, endpoint string) *traced {
	t.Helper()
	tr := &traced{metrics: newTestMetrics().Traces, log: new(output)}
	var err error
	tr.Tracing, err = NewTracing(TracingOptions{
		Endpoint: endpoint, Version: "1.2.3", Metrics: tr.metrics, Log: slog.New(slog.NewTextHandler(tr.log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tr.Close(cancelled()) })
	return tr
}

// quietEnv forgets what the environment says of tracing, and sets what the test wants: name, value, name, value.
func quietEnv(t *testing.T, env ...string) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "POD_") {
			t.Setenv(name, "")
		}
	}
	setEnv(t, env...)
}

func setEnv(t *testing.T, env ...string) {
	t.Helper()
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// end starts and ends n spans, each a trace of its own.
func (tr *traced) end(n int) {
	var s Span
	for range n {
		tr.StartServer(&s, "GET /", time.Now(), noHeader)
		s.End(time.Now())
		s.Reset()
	}
}

func noHeader(string) string { return "" }

// counted requires what became of the spans.
func (tr *traced) counted(t *testing.T, exported, dropped, failed int) {
	t.Helper()
	of := func(c prometheus.Counter) int { return int(testutil.ToFloat64(c)) }
	require.Equal(t, [3]int{exported, dropped, failed}, [3]int{of(tr.metrics.Exported), of(tr.metrics.Dropped), of(tr.metrics.Failed)},
		"exported, dropped, failed")
}

// warnings is how many lines the log has.
func (tr *traced) warnings() int { return bytes.Count([]byte(tr.log.String()), []byte("level=WARN")) }
