package telemetry

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type exported = collecting.ExportTraceServiceResponse

// telemetry.md, section 6.2
func TestEverySpanArrivesOnceInBatchesOf64(t *testing.T) {
	quietEnv(t)
	r := receive(t, &receiver{})
	tr := trace(t, r.address)
	const requests, each = 8, 150
	var running sync.WaitGroup
	for i := range requests {
		running.Go(func() {
			var s Span
			for n := range each {
				tr.StartServer(&s, fmt.Sprint(i, " ", n), time.Now(), noHeader)
				s.Number("n", int64(n))
				s.End(time.Now())
			}
		})
	}
	running.Wait()
	require.NoError(t, tr.Close(t.Context()))
	tr.counted(t, requests*each, 0, 0)
	names, ids := map[string]bool{}, map[string]bool{}
	for _, batch := range r.batches() {
		require.LessOrEqual(t, len(batch), 64)
		for _, s := range batch {
			require.True(t, strings.HasSuffix(s.Name, fmt.Sprint(" ", s.Attributes[0].Value.GetIntValue())), "what a span has is its own")
			names[s.Name], ids[string(s.SpanId)] = true, true
		}
	}
	require.Len(t, names, requests*each)
	require.Len(t, ids, requests*each)
	require.Zero(t, tr.warnings())
}

// telemetry.md, section 6.2: a batch that is not full is sent all the same.
func TestFewSpansArriveWhileTheTracingRuns(t *testing.T) {
	quietEnv(t)
	r := receive(t, &receiver{})
	tr := trace(t, r.address)
	for sent := range 2 {
		tr.end(3)
		require.Eventually(t, func() bool { return len(r.spans()) == 3*(sent+1) }, patience, time.Millisecond)
	}
}

// telemetry.md, section 6.2: spans ended in the last 500 ms must arrive.
func TestSpansThatEndedJustNowArriveAtClose(t *testing.T) {
	for _, spans := range []int{0, 1, 63, 64, 65, 200} {
		t.Run(fmt.Sprint(spans), func(t *testing.T) {
			quietEnv(t)
			r := receive(t, &receiver{})
			tr := trace(t, r.address)
			tr.end(spans)
			require.NoError(t, tr.Close(t.Context()))
			require.Len(t, r.spans(), spans)
			tr.counted(t, spans, 0, 0)
		})
	}
}

// telemetry.md, section 6.2: overflow drops and counts.
func TestSpansThatAreTooManyAreDroppedAndCounted(t *testing.T) {
	quietEnv(t)
	release := make(chan struct{})
	r := receive(t, &receiver{answer: func(ctx context.Context) (*exported, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &exported{}, ctx.Err()
	}})
	tr := trace(t, r.address)
	tr.end(2048 + 100)
	tr.counted(t, 0, 100, 0)
	close(release)
	require.Eventually(t, func() bool { return testutil.ToFloat64(tr.metrics.Exported) == 2048 }, patience, time.Millisecond)
	tr.end(1)
	require.NoError(t, tr.Close(t.Context()))
	tr.counted(t, 2049, 100, 0)
	require.Len(t, r.spans(), 2049)
}

// A collector takes no more than 4 MiB at a time, and clients decide how long a span is: long spans must not take others with them.
func TestLongSpans(t *testing.T) {
	tests := []struct {
		name           string
		spans, long    int
		exported, drop int
	}{
		{"batches of long spans are smaller", 10, 1_000_000, 10, 0},
		{"a span that is too long for a collector is dropped", 3, 2_000_000, 0, 3},
		{"what waits is bounded in bytes", 20, 1_000_000, 16, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t)
			var gate sync.RWMutex
			r := receive(t, &receiver{answer: func(context.Context) (*exported, error) {
				gate.RLock()
				defer gate.RUnlock()
				return &exported{}, nil
			}})
			tr := trace(t, r.address)
			value := strings.Repeat("x", tt.long)
			for round := range 2 { // what has been sent waits no more
				gate.Lock()
				for range tt.spans {
					s := fresh(tr.Tracing)
					s.Text("k", value)
					s.End(time.Now())
				}
				tr.end(1)
				gate.Unlock()
				sent := float64((round + 1) * (tt.exported + 1))
				require.Eventually(t, func() bool { return testutil.ToFloat64(tr.metrics.Exported) == sent }, patience, time.Millisecond)
			}
			require.NoError(t, tr.Close(t.Context()))
			tr.counted(t, 2*(tt.exported+1), 2*tt.drop, 0)
			require.Len(t, r.spans(), 2*(tt.exported+1))
		})
	}
}

// telemetry.md, section 6.1: export errors are logged at WARN at most once a minute.
func TestSpansThatCannotBeSentAreCountedAndSaidOnce(t *testing.T) {
	down := func(t *testing.T) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		return listener.Addr().String()
	}
	answering := func(response *exported, err error) func(t *testing.T) string {
		return func(t *testing.T) string {
			return receive(t, &receiver{answer: func(context.Context) (*exported, error) { return response, err }}).address
		}
	}
	tests := []struct {
		name     string
		receiver func(t *testing.T) string
		said     string
	}{
		{"nobody listens", down, "connection refused"},
		{"the collector refuses", answering(nil, status.Error(grpccodes.InvalidArgument, "no, thanks")), "no, thanks"},
		{"the collector takes a part", answering(&exported{
			PartialSuccess: &collecting.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"},
		}, nil), "too old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t, "OTEL_EXPORTER_OTLP_TIMEOUT", "300") // ms: for how long an export is tried again
			tr := trace(t, tt.receiver(t))
			tr.end(130) // three batches
			require.Eventually(t, func() bool { return testutil.ToFloat64(tr.metrics.Failed) == 130 }, patience, time.Millisecond)
			require.NoError(t, tr.Close(t.Context()))
			tr.counted(t, 0, 0, 130)
			require.Equal(t, 1, tr.warnings())
			require.Contains(t, tr.log.String(), "spans could not be sent to the collector")
			require.Regexp(t, `spans=(64|2)\b`, tr.log.String()) // whichever batch fails first
			require.Contains(t, tr.log.String(), tt.said)
		})
	}
}

// telemetry.md, section 6.1: a collector that comes later gets what comes later.
func TestSpansArriveOnceTheCollectorIsThere(t *testing.T) {
	quietEnv(t)
	var up atomic.Bool
	r := receive(t, &receiver{answer: func(context.Context) (*exported, error) {
		if !up.Load() {
			return nil, status.Error(grpccodes.PermissionDenied, "not yet")
		}
		return &exported{}, nil
	}})
	tr := trace(t, r.address)
	tr.end(1)
	require.Eventually(t, func() bool { return testutil.ToFloat64(tr.metrics.Failed) == 1 }, patience, time.Millisecond)
	up.Store(true)
	tr.end(2)
	require.NoError(t, tr.Close(t.Context()))
	tr.counted(t, 2, 0, 1)
}

// telemetry.md, section 6.2: the flush is bounded, to 5 s, or by the caller.
func TestCloseDoesNotWaitForACollectorThatHangs(t *testing.T) {
	tests := []struct {
		name  string
		limit time.Duration // of the caller; 0: none
	}{
		{"the caller's limit counts", 50 * time.Millisecond},
		{"without one the tracing's own counts", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t)
			r := receive(t, &receiver{answer: func(ctx context.Context) (*exported, error) { <-ctx.Done(); return nil, ctx.Err() }})
			tr := trace(t, r.address)
			tr.end(130)
			ctx := t.Context()
			if tt.limit != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.limit)
				defer cancel()
			}
			require.ErrorIs(t, tr.Close(ctx), context.DeadlineExceeded)
			tr.counted(t, 0, 0, 130)
			require.Empty(t, r.spans())
		})
	}
}

// telemetry.md, section 6.2
func TestCloseIsForGood(t *testing.T) {
	quietEnv(t)
	r := receive(t, &receiver{})
	tr := trace(t, r.address)
	late := fresh(tr.Tracing)
	tr.end(1)
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := tr.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	require.NoError(t, tr.Close(t.Context()))
	late.End(time.Now())
	tr.end(1)
	tr.counted(t, 1, 2, 0)
	require.Len(t, r.spans(), 1)
}

// A tracing that is off is closed like another.
func TestCloseOfATracingThatIsOff(t *testing.T) {
	var off *Tracing
	require.NoError(t, off.Close(t.Context()))
}
