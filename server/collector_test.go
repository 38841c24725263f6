package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector is an OTLP receiver: the service that a collector serves, keeping what it gets.
type collector struct {
	collecting.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource []*commonpb.KeyValue
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{address: listener.Addr().String()}
	s := grpc.NewServer()
	collecting.RegisterTraceServiceServer(s, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return c
}

// Export takes a batch.
func (c *collector) Export(_ context.Context, r *collecting.ExportTraceServiceRequest) (*collecting.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.ResourceSpans {
		c.resource = of.Resource.Attributes
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &collecting.ExportTraceServiceResponse{}, nil
}

// collectorProcess is a collector that keeps nothing, as a process of its own: what it costs is not measured with the gateway.
const collectorProcess = "SMG_TEST_COLLECTOR_PROCESS"

type discarding struct {
	collecting.UnimplementedTraceServiceServer
}

func (discarding) Export(context.Context, *collecting.ExportTraceServiceRequest) (*collecting.ExportTraceServiceResponse, error) {
	return &collecting.ExportTraceServiceResponse{}, nil
}

// RunCollectorProcess serves until standard input ends.
func RunCollectorProcess() {
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

func startCollectorProcess(b *testing.B) (address string) {
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
