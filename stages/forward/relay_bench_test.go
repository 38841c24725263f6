package forward

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// sink is a client that takes everything and keeps nothing.
type sink struct {
	*caller
	written int
}

func (s *sink) Headers(yield func(name, value string) bool) {
	_ = yield("Authorization", "Bearer sk-0123456789") && yield("Accept", "*/*") && yield("X-Request-Id", "chatcmpl-0123456789")
}

func (s *sink) WriteHead(int, int64, []pipeline.Field) error { return nil }
func (s *sink) Flush() error                                 { return nil }
func (s *sink) SetWriteDeadline(time.Time) error             { return nil }

func (s *sink) Write(p []byte) (int, error) {
	s.written += len(p)
	return len(p), nil
}

// prompt is a server that answers whenever what it has read ends with '#'. It parses nothing and allocates nothing, so that what
// is measured is the stage.
func prompt(tb testing.TB, answer ...[]byte) *rawServer {
	return listen(tb, func(p *peer) {
		buf := make([]byte, 64<<10)
		for {
			n, err := p.Conn.Read(buf)
			if err != nil {
				return
			}
			if !bytes.HasSuffix(buf[:n], []byte("#")) {
				continue
			}
			for _, piece := range answer {
				if _, err := p.Conn.Write(piece); err != nil {
					return
				}
			}
		}
	})
}

// relaying is a chain to a server, with everything that a gateway counts.
func relaying(tb testing.TB, s *rawServer) (chain *pipeline.Chain, client *sink) {
	metrics := telemetry.NewMetrics(telemetry.Options{})
	w := workerAt(tb, "http://"+s.Dial, "key", workers.DefaultHTTPPoolSettings())
	w.AttachSeries(metrics.Workers.Add(w.URL()))
	body := []byte(strings.Repeat("x", 1023) + "#")
	target := pipeline.StageFunc("target", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}}, func(x *pipeline.Exchange, next pipeline.Next) error {
		x.Body.Bytes = body
		x.Legs.Add(w, w.Type()).Begin()
		defer x.Legs.End()
		return next(x)
	})
	chain, err := pipeline.Assemble("POST /generate", target, To(testTransport(tb), Settings{
		MaxAnswer: 1 << 20, Keepalive: 15 * time.Second, Metrics: metrics,
	}))
	require.NoError(tb, err)
	return chain, &sink{caller: newCaller(tb)}
}

func wholeAnswer(body int) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2029 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"+
		"x-request-id: chatcmpl-0123456789\r\ncontent-length: %d\r\n\r\n%s", body, strings.Repeat("y", body))
}

// DESIGN section 5: a small answer costs its head's one string, and at most one allocation more.
func TestASmallAnswerAllocatesNextToNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	chain, client := relaying(t, prompt(t, wholeAnswer(1024)))
	serve := func() {
		if err := chain.Serve(client); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		serve()
	}
	got := testing.AllocsPerRun(500, serve)
	t.Logf("%v allocations", got)
	require.LessOrEqual(t, got, 2.0)
}

// BenchmarkRelayWhole is a request and an answer of 1 KiB each through the stage, over one keep-alive connection. BenchmarkSend
// is the client alone.
func BenchmarkRelayWhole(b *testing.B) {
	chain, client := relaying(b, prompt(b, wholeAnswer(1024)))
	b.ReportAllocs()
	for b.Loop() {
		if err := chain.Serve(client); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRelayStream is a stream of 256 events of 200 bytes, a write of the worker each; an op is an event.
func BenchmarkRelayStream(b *testing.B) {
	const events = 256
	event := []byte(chunk("data: " + strings.Repeat("z", 192) + "\n\n"))
	answer := [][]byte{[]byte(chunkedSSE)}
	for range events {
		answer = append(answer, event)
	}
	answer = append(answer, []byte("0\r\n\r\n"))
	for _, way := range []string{"lean", "standard"} {
		b.Run(way, func(b *testing.B) {
			chain, client := relaying(b, prompt(b, answer...))
			if way == "standard" {
				rt := &http.Transport{}
				b.Cleanup(rt.CloseIdleConnections)
				var err error
				chain, err = chain.Replace("forward", To(rt, Settings{Keepalive: 15 * time.Second}))
				require.NoError(b, err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += events {
				if err := chain.Serve(client); err != nil {
					b.Fatal(err)
				}
			}
			require.NotZero(b, client.written)
		})
	}
}
