package forward

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// silent reads a request, says something, and waits until the other side has closed.
func silent(said string) func(p *peer) {
	return func(p *peer) {
		if r, _ := p.request(); r != nil {
			_, _ = io.WriteString(p, said)
			p.gone()
		}
	}
}

// closes reads nothing and closes.
func closes(*peer) {}

// http-dataplane.md, sections 8 and 15; DECISIONS.md rows 29 and 31: what a failure is for the client, and for the worker.
func TestFailuresBeforeAnythingWasWritten(t *testing.T) {
	const cut = "read_response_body_failed"
	tests := []struct {
		name    string
		serve   func(p *peer) // nil: nobody listens
		status  int
		code    string
		outcome pipeline.Outcome
		leg     int // its status
		timeout bool
	}{
		{"nobody listens", nil, 502, "call_upstream_connection_failed", pipeline.Unreachable, 502, false},
		{"the connection is closed at once", closes, 502, "call_upstream_request_error", pipeline.Unreachable, 502, false},
		{"the connection is closed instead of an answer", once(""), 502, "call_upstream_request_error", pipeline.Unreachable, 502, false},
		{"half a head", once("HTTP/1.1 200 OK\r\nContent-"), 502, "call_upstream_request_error", pipeline.Unreachable, 502, false},
		{"no HTTP", once("SSH-2.0-OpenSSH\r\n\r\n"), 502, "call_upstream_request_error", pipeline.Unreachable, 502, false},
		{"a silent worker", silent(""), 504, "call_upstream_timeout", pipeline.TimedOut, 504, true},
		{"an answer that stops", silent(jsonHead + "Content-Length: 9\r\n\r\n{"), 504, "call_upstream_timeout", pipeline.TimedOut, 200, true},
		{"a cut answer", once(jsonHead + "Content-Length: 9\r\n\r\n{"), 502, cut, pipeline.Broken, 200, false},
		{"a cut answer in chunks", once(jsonHead + "Transfer-Encoding: chunked\r\n\r\n" + chunk("{")), 502, cut, pipeline.Broken, 200, false},
		{"a chunk that is none", once(jsonHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{"), 502, cut, pipeline.Broken, 200, false},
		{"a cut refusal", once("HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n{"), 502, cut, pipeline.Broken, 400, false},
		{"an answer that is declared too long", answers(jsonHead + "Content-Length: 101\r\n\r\n" + strings.Repeat("x", 101)), 502, "upstream_response_too_large", pipeline.Broken, 200, false},
		{"an answer that turns out too long", answers(chunkedAnswer(jsonHead, strings.Repeat("x", 60), strings.Repeat("x", 41))), 502, "upstream_response_too_large", pipeline.Broken, 200, false},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := &rawServer{}
				if tt.serve == nil {
					s.Dial = unused(t)
				} else {
					s = listen(t, tt.serve)
				}
				metrics := telemetry.NewMetrics(telemetry.Options{})
				r := newTrip(t, s, rt, func(r *trip) {
					r.settings.MaxAnswer, r.settings.Metrics = 100, metrics
					if tt.timeout {
						r.limits.RequestTimeout = 30 * time.Millisecond
					}
				})
				r.worker.AttachSeries(metrics.Workers.Add(r.worker.URL()))
				r.run()
				require.Equal(t, tt.code, r.code())
				e := pipeline.AsError(r.err)
				require.False(t, e.Terminal, "another attempt may do better")
				require.Contains(t, e.Error(), r.worker.URL(), "for the log")
				require.Equal(t, tt.status, r.status)
				require.Equal(t, tt.code, r.field("X-SMG-Error-Code"))
				require.NotContains(t, r.got(), s.Dial, "not for the client")
				require.Empty(t, r.all("X-Smg-Routed-Worker-Id"))
				require.Equal(t, tt.outcome, r.leg.Outcome)
				require.Equal(t, tt.leg, r.leg.Status)
				require.True(t, r.x.Tried(r.worker))

				kind := func(timeout bool) float64 {
					return testutil.ToFloat64(metrics.Workers.Errors("regular", "http", timeout))
				}
				require.EqualValues(t, 1, kind(tt.timeout))
				require.EqualValues(t, 0, kind(!tt.timeout))
				require.EqualValues(t, 1, testutil.ToFloat64(r.worker.Series().Requests("unknown")))
			})
		}
	})
}

// unused is an address that nobody listens on.
func unused(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// http-dataplane.md, section 9.2: exactly as long as may be is not too long.
func TestAnAnswerOfTheGreatestLength(t *testing.T) {
	for _, raw := range []string{
		jsonHead + "Content-Length: 100\r\n\r\n" + strings.Repeat("x", 100),
		chunkedAnswer(jsonHead, strings.Repeat("x", 60), strings.Repeat("x", 40)),
	} {
		r := newTrip(t, listen(t, answers(raw)), testTransport(t), func(r *trip) { r.settings.MaxAnswer = 100 }).run()
		require.NoError(t, r.err)
		require.Len(t, r.got(), 100)
	}
}

// http-dataplane.md, section 15: a request that cannot be made is another worker's chance, since a worker's key may be at fault.
func TestARequestThatCannotBeMade(t *testing.T) {
	s := listen(t, answers(okAnswer))
	r := newTrip(t, s, testTransport(t), func(r *trip) { r.key = "a\nb" }).run()
	require.Equal(t, "call_upstream_builder_error", r.code())
	require.Equal(t, 500, r.status)
	require.False(t, pipeline.AsError(r.err).Terminal)
	require.Equal(t, pipeline.NotSent, r.leg.Outcome)
	require.Zero(t, s.accepted.Load())
}

// telemetry: an error of the worker's own is counted, a refusal and what the client did are not.
func TestWhatCountsAsAnErrorOfTheWorker(t *testing.T) {
	tests := []struct {
		name      string
		raw       string
		configure func(r *trip)
		want      int
	}{
		{"an answer", okAnswer, nil, 0},
		{"a refusal", "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", nil, 0},
		{"a failure", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", nil, 1},
		{"a failure that is held", "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", func(r *trip) { r.x.Judge = holding(503) }, 1},
		{"a failure that the client does not take", "HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx", func(r *trip) { r.onWrite = hangingUp }, 0},
		{"a stream that breaks", chunkedSSE + chunk(event1) + "zz", nil, 1},
		{"an upload that breaks", okAnswer, func(r *trip) { r.body = io.MultiReader(strings.NewReader("x"), failing{}) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			metrics := telemetry.NewMetrics(telemetry.Options{})
			newTrip(t, listen(t, once(tt.raw)), testTransport(t), func(r *trip) {
				r.settings.Metrics = metrics
				if tt.configure != nil {
					tt.configure(r)
				}
			}).run()
			require.EqualValues(t, tt.want, testutil.ToFloat64(metrics.Workers.Errors("regular", "http", false)))
			require.Zero(t, testutil.ToFloat64(metrics.Workers.Errors("regular", "http", true)))
		})
	}
}

// case C05: a client that leaves in the middle of its upload is no client whose upload is at fault.
func TestAClientThatLeavesInItsUpload(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, said := range []string{"", chunkedSSE, jsonHead + "Content-Length: 9\r\n\r\n{"} {
			asked := make(chan struct{})
			s := listen(t, func(p *peer) {
				_, _ = p.in.ReadString('\n')
				_, _ = io.WriteString(p, said)
				close(asked)
				p.gone()
			})
			var d *dripping
			r := newTrip(t, s, rt, func(r *trip) { d = r.drip() })
			d.drops <- "begun"
			wait := r.start()
			<-asked
			if said != "" {
				require.Eventually(t, func() bool { return r.momentCount() > 0 }, waiting, time.Millisecond)
			}
			r.leave()
			wait()
			require.Equal(t, pipeline.ErrClientGone, r.err)
			require.Equal(t, pipeline.ClientLeft, r.leg.Outcome)
		}
	})
}

// case C05; http-dataplane.md, sections 9.2 and 9.3: a client that leaves while the worker is silent closes the connection to it;
// one that had left before contacts nobody.
func TestAClientThatLeavesWhileTheWorkerIsSilent(t *testing.T) {
	tests := []struct {
		name, said string
		stream     bool
		leg        int // status: what the worker had said
		written    bool
	}{
		{"before the head", "", false, 0, false},
		{"before the head of a stream", "", true, 0, false},
		{"in a whole answer", jsonHead + "Content-Length: 9\r\n\r\n{", false, 200, false},
		{"in an answer that is held", "HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n{", false, 503, false},
		{"behind the head of a stream", chunkedSSE, true, 200, true},
		{"between two events", chunkedSSE + chunk(event1), true, 200, true},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				asked, closed := make(chan struct{}), make(chan struct{})
				s := listen(t, func(p *peer) {
					silent := func() { p.gone(); close(closed) }
					if r, _ := p.request(); r == nil {
						return
					}
					_, _ = io.WriteString(p, tt.said)
					close(asked)
					silent()
				})
				r := newTrip(t, s, rt, func(r *trip) {
					r.x.Body.Stream, r.settings.Keepalive, r.x.Judge = tt.stream, time.Hour, holding(503)
				})
				wait := r.start()
				<-asked
				if tt.written {
					require.Eventually(t, func() bool { return len(r.pieces()) > 0 }, waiting, time.Millisecond)
				} else if tt.leg != 0 {
					require.Eventually(t, func() bool { return r.momentCount() > 0 }, waiting, time.Millisecond)
				}
				r.leave()
				wait()
				<-closed
				require.Equal(t, pipeline.ErrClientGone, r.err)
				require.Equal(t, pipeline.ClientLeft, r.leg.Outcome)
				require.Equal(t, tt.leg, r.leg.Status)
				require.NotContains(t, r.got(), "error", "nobody is left to be told")
			})
		}
	})
	t.Run("before it was heard", func(t *testing.T) {
		s := listen(t, answers(okAnswer))
		r := newTrip(t, s, testTransport(t), nil)
		r.leave()
		require.Equal(t, pipeline.ErrClientGone, r.run().err)
		require.Equal(t, pipeline.ClientLeft, r.leg.Outcome)
		require.Zero(t, s.accepted.Load())
	})
}

// http-dataplane.md, section 9.4: whoever does not take an answer has left; the worker's status is what its breaker hears of.
func TestAClientThatLeavesWhileItIsWrittenTo(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, raw := range map[string]string{
		"a whole answer": jsonHead + "Content-Length: 2\r\n\r\n{}",
		"a long answer":  chunkedAnswer(jsonHead, long),
		"a stream":       chunkedSSE + chunk(event1),
		"a held answer":  chunkedAnswer("HTTP/1.1 503 Busy\r\n", long, long),
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, silent(raw))
			tr := testTransport(t)
			r := newTrip(t, s, tr, func(r *trip) { r.onWrite, r.x.Judge = hangingUp, holding(503) }).run()
			require.Equal(t, pipeline.ErrClientGone, r.err)
			require.Equal(t, pipeline.ClientLeft, r.leg.Outcome)
			require.NotZero(t, r.leg.Status)
			require.True(t, r.aborted)
		})
	}
}

// DECISIONS.md row 5: a client that does not read is not waited for any longer than the worker.
func TestASlowClientHasNoMoreTimeThanTheAttempt(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, raw := range map[string]string{
		"a long answer": chunkedAnswer(jsonHead, long),
		"a stream":      chunkedAnswer(streamHead, event1),
		"a held answer": chunkedAnswer("HTTP/1.1 503 Busy\r\n", long, long),
	} {
		t.Run(name, func(t *testing.T) {
			var limit time.Time
			r := newTrip(t, listen(t, answers(raw)), testTransport(t), func(r *trip) {
				r.limits.RequestTimeout, r.x.Judge = time.Hour, holding(503)
				r.onWrite = func(c *caller, _ []byte) error {
					limit = c.deadline
					return os.ErrDeadlineExceeded // as a socket gives whose other end does not read
				}
			}).run()
			over := r.leg.Sent.Add(time.Hour)
			require.False(t, limit.Before(over), "%v", limit)
			require.True(t, limit.Before(over.Add(time.Hour/1000+2*farewell)), "%v", limit)
			require.Equal(t, pipeline.ErrClientGone, r.err)
			require.Equal(t, pipeline.ClientLeft, r.leg.Outcome, "the worker did its part")
		})
	}
}
