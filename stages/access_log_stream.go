package stages

import (
	"context"
	"log/slog"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// relayedStream is the client of a streamed answer, counting what it gets. It takes the client's place with the first byte that a
// worker streams, so that any other answer goes its usual way.
type relayedStream struct {
	pipeline.Client // nil before
	bytes           int64
}

// relayed is the stream that has gone to the client, of requests whose second line about the end is wanted.
var relayed = pipeline.NewFact[relayedStream]("relayed_stream")

var (
	_ pipeline.Client  = (*relayedStream)(nil)
	_ pipeline.Watcher = (*relayedStream)(nil)
)

// Head is nothing to count.
func (*relayedStream) Head(*pipeline.Exchange, *pipeline.Leg, int) {}

// FirstByte begins to count a stream.
func (r *relayedStream) FirstByte(x *pipeline.Exchange, leg *pipeline.Leg) {
	if leg.Streamed && r.Client == nil {
		r.Client, x.Client = x.Client, r
	}
}

// Write counts what the client takes.
func (r *relayedStream) Write(p []byte) (int, error) {
	n, err := r.Client.Write(p)
	r.bytes += int64(n)
	return n, err
}

// conclude is [pipeline.Exchange.Conclude]; what a stream comes to is found out if it will be told.
func (s *accessLog) conclude(x *pipeline.Exchange, next pipeline.Next) error {
	if s.probe || !s.responses.Enabled(context.Background(), slog.LevelDebug) {
		return x.Conclude(next)
	}
	client := x.Client
	x.Watch(relayed.Fill(x))
	err := x.Conclude(next)
	x.Client = client // the exchange keeps nothing of what is the fact's
	return err
}

// finishStream writes the second line about the end, of a streamed answer: what the first one, which is about the head, cannot tell.
func (s *accessLog) finishStream(x *pipeline.Exchange, info *telemetry.RequestInfo, err error) {
	counted, wanted := relayed.Lookup(x)
	leg := x.Legs.Last()
	if !wanted || leg == nil || !leg.Streamed || x.Status() == 0 {
		return
	}
	_, code := x.Result(err)
	attrs := []slog.Attr{
		slog.Int64("duration_us", time.Since(x.Arrived).Microseconds()),
		slog.Int64("bytes", counted.bytes),
		slog.Bool("client_gone", code == pipeline.ErrClientGone.Code),
	}
	if n := leg.Usage.InputTokens; n > 0 {
		attrs = append(attrs, slog.Int64("input_tokens", n))
	}
	if n := leg.Usage.OutputTokens; n > 0 {
		attrs = append(attrs, slog.Int64("output_tokens", n))
	}
	s.write(x, s.responses, slog.LevelDebug, "response stream ended", info, attrs...)
}
