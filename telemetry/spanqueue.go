package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// How spans are sent: in batches of that many, that soon, and never more of them waiting; a batch has that long. Bytes are bounded
// too, because clients decide how long a span is: a collector refuses a batch above 4 MiB.
const (
	spansABatch   = 64
	batchesAtOnce = 8       // sent together, which wakes the network's goroutines once for all of them
	bytesABatch   = 1 << 20 // and one span more, which is no longer than that
	spansWaiting  = 2048
	bytesWaiting  = 16 << 20
	batchDelay    = 500 * time.Millisecond
	exportTimeout = 30 * time.Second
	flushTimeout  = 5 * time.Second
)

// spanQueue keeps ended spans until they are sent, in the background. Adding one copies its bytes; it never waits for the collector.
type spanQueue struct {
	client  otlptrace.Client
	frames  []spanFrame // one for each batch that is on its way
	metrics *TraceMetrics
	log     *slog.Logger

	mu      sync.Mutex
	filling *spanBatch
	full    []*spanBatch // the next to be sent first
	waiting int          // spans in filling, full, and on their way
	bytes   int          // of these
	closed  bool

	ready   chan struct{} // holds one when enough batches are full
	closing chan struct{} // closed when what is left is to be sent at once
	ended   chan struct{} // closed when nothing is sent any more
	giveUp  context.CancelFunc
	warned  time.Time
}

// spanFrame is the message around a batch: who sends it.
type spanFrame struct {
	resource *tracepb.ResourceSpans
	scope    *tracepb.ScopeSpans
}

// newSpanFrames makes the frames of a queue.
func newSpanFrames(resource *resourcepb.Resource, scope *commonpb.InstrumentationScope) []spanFrame {
	frames := make([]spanFrame, batchesAtOnce)
	for i := range frames {
		spans := &tracepb.ScopeSpans{Scope: scope}
		frames[i] = spanFrame{&tracepb.ResourceSpans{Resource: resource, ScopeSpans: []*tracepb.ScopeSpans{spans}}, spans}
	}
	return frames
}

// spanBatch is spans as they stand in a ScopeSpans message.
type spanBatch struct {
	wire  []byte
	spans int
}

var spanBatches = sync.Pool{New: func() any { return new(spanBatch) }}

func (q *spanQueue) start() {
	ctx, cancel := context.WithCancel(context.Background())
	q.ready, q.closing, q.ended, q.giveUp = make(chan struct{}, 1), make(chan struct{}), make(chan struct{}), cancel
	q.filling = spanBatches.Get().(*spanBatch)
	go q.run(ctx)
}

// add queues a span, or drops it: if it is too long for any batch, or too many are waiting.
func (q *spanQueue) add(span []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.waiting >= spansWaiting || len(span) > bytesABatch || q.bytes+len(span) > bytesWaiting {
		q.metrics.Dropped.Inc()
		return
	}
	before := len(q.filling.wire)
	q.filling.wire = appendBytes(q.filling.wire, scopeSpansSpans, span)
	q.bytes += len(q.filling.wire) - before
	q.waiting++
	if q.filling.spans++; q.filling.spans == spansABatch || len(q.filling.wire) >= bytesABatch {
		q.turn()
		if len(q.full) < batchesAtOnce {
			return
		}
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
}

// turn takes the batch that is being filled to those that are full. The lock is held.
func (q *spanQueue) turn() {
	if q.filling.spans > 0 {
		q.full = append(q.full, q.filling)
		q.filling = spanBatches.Get().(*spanBatch)
	}
}

func (q *spanQueue) run(ctx context.Context) {
	defer close(q.ended)
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	for {
		select {
		case <-q.closing:
			q.send(ctx, true)
			return
		case <-q.ready:
			q.send(ctx, false)
		case <-tick.C:
			q.send(ctx, true)
		}
	}
}

// send sends the batches that are full, and at last the one that is not, if all are wanted.
func (q *spanQueue) send(ctx context.Context, all bool) {
	for n := batchesAtOnce; n == batchesAtOnce; {
		var batches [batchesAtOnce]*spanBatch
		if n = q.take(&batches, all); n == 0 {
			return
		}
		var sent sync.WaitGroup
		for i, b := range batches[1:n] {
			sent.Go(func() { q.export(ctx, q.frames[i+1], b) })
		}
		q.export(ctx, q.frames[0], batches[0])
		sent.Wait()
	}
}

// take takes the batches that are sent next, and tells how many.
func (q *spanQueue) take(batches *[batchesAtOnce]*spanBatch, all bool) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if all && len(q.full) < batchesAtOnce {
		q.turn()
	}
	n = copy(batches[:], q.full)
	q.full = append(q.full[:0], q.full[n:]...)
	return n
}

// export sends a batch. Its spans are fields of the message that the library does not know, which it copies as they are.
func (q *spanQueue) export(ctx context.Context, frame spanFrame, b *spanBatch) {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	frame.scope.ProtoReflect().SetUnknown(b.wire)
	err := q.client.UploadTraces(ctx, []*tracepb.ResourceSpans{frame.resource})
	frame.scope.ProtoReflect().SetUnknown(nil)
	q.mu.Lock()
	q.waiting -= b.spans
	q.bytes -= len(b.wire)
	warn := err != nil && time.Since(q.warned) >= time.Minute
	if warn {
		q.warned = time.Now()
	}
	q.mu.Unlock()
	if err == nil {
		q.metrics.Exported.Add(float64(b.spans))
	} else {
		q.metrics.Failed.Add(float64(b.spans))
	}
	if warn {
		q.log.Warn("spans could not be sent to the collector; said once a minute at most", "spans", b.spans, "error", err)
	}
	b.wire, b.spans = b.wire[:0], 0
	spanBatches.Put(b)
}

// close sends what is left as long as ctx lasts, and returns when nothing is on its way any more.
func (q *spanQueue) close(ctx context.Context) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	q.mu.Unlock()
	defer context.AfterFunc(ctx, q.giveUp)()
	<-q.ended
	q.giveUp()
}
