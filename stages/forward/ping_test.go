package forward

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// DECISIONS.md row 34: a silent worker's client is pinged, from the head on, between events alone.
func TestPingsWhileTheWorkerIsSilent(t *testing.T) {
	for _, dialect := range []Dialect{OpenAIStream, AnthropicStream} {
		onBoth(t, func(t *testing.T, rt http.RoundTripper) {
			ping := string(dialect.Ping)
			s, say := scripted(t)
			r := newTrip(t, s, rt, func(r *trip) { r.settings.Keepalive, r.settings.Dialect = 5*time.Millisecond, dialect })
			pinged := func(n int) {
				from := strings.Count(r.got(), ping)
				require.Eventually(t, func() bool { return strings.Count(r.got(), ping) >= from+n }, waiting, time.Millisecond)
			}
			wait := r.start()
			say <- chunkedSSE
			pinged(2)
			say <- chunk(event1)
			pinged(2)
			say <- chunk("data: {\"b\"")
			require.Eventually(t, func() bool { return strings.HasSuffix(r.got(), "\"b\"") }, waiting, time.Millisecond)
			silence := time.Now().Add(40 * time.Millisecond)
			require.Eventually(t, func() bool { return passed(silence) }, waiting, time.Millisecond)
			require.True(t, strings.HasSuffix(r.got(), "\"b\""), "never within an event")
			say <- chunk(":2}\n\n")
			pinged(1)
			say <- chunk(done) + "0\r\n\r\n"
			close(say)
			wait()
			require.NoError(t, r.err)
			require.Equal(t, event1+event2+done, strings.ReplaceAll(r.got(), ping, ""))
			for _, piece := range r.pieces() {
				require.True(t, piece == ping || !strings.Contains(piece, ping), "a ping is flushed by itself: %q", piece)
			}
		})
	}
}

// DECISIONS.md row 34: no ping without need.
func TestNoPings(t *testing.T) {
	tests := []struct {
		name, head string
		keepalive  time.Duration
	}{
		{"when they are off", streamHead, 0},
		{"in an answer that is no event stream", jsonHead, time.Millisecond},
		{"in another coding", streamHead + "Content-Encoding: gzip\r\n", time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, say := scripted(t)
			r := newTrip(t, s, testTransport(t), func(r *trip) { r.x.Body.Stream, r.settings.Keepalive = true, tt.keepalive })
			wait := r.start()
			say <- tt.head + "Content-Length: 3\r\n\r\n"
			require.Eventually(t, func() bool { return len(r.pieces()) == 1 }, waiting, time.Millisecond)
			silence := time.Now().Add(30 * time.Millisecond)
			require.Eventually(t, func() bool { return passed(silence) }, waiting, time.Millisecond)
			say <- "abc"
			close(say)
			wait()
			require.Equal(t, "abc", r.got())
		})
	}
}

// A busy stream does not move its deadline for each event: that it has passed is not the worker's silence. Nor is the time that
// the client takes.
func TestADeadlineThatPassesIsNoSilence(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s, say := scripted(t)
		c := s.get()
		ask := make(chan struct{})
		go func() {
			defer close(ask)
			say <- chunkedSSE
		}()
		a, err := senderOver(rt).send(c)
		require.NoError(t, err)
		<-ask
		defer a.close()
		out := newCaller(t)
		f := &forward{Settings: Settings{Keepalive: time.Hour, Dialect: OpenAIStream}}
		p := &passage{}
		p.call.Deadline = time.Now().Add(time.Hour)
		p.tail.tick = time.Now().Add(-time.Second)
		a.setReadDeadline(p.tail.tick)
		go func() {
			say <- chunk(event1)
			close(say)
		}()
		piece, err := f.listen(&pipeline.Exchange{Client: out}, p, a, true)
		require.NoError(t, err)
		require.Equal(t, event1, string(piece))
		require.Empty(t, out.pieces())
		require.True(t, p.tail.tick.After(time.Now()), "it was moved")
	})
}

// A round tripper may have time-outs of its own, which are no ticks: the stream has ended, and is not asked again and again.
func TestATimeoutOfTheTransportsOwn(t *testing.T) {
	body := &timingOut{}
	rt := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: io.NopCloser(body),
		}, nil
	})
	r := newTrip(t, listen(t, closes), rt, func(r *trip) { r.settings.Keepalive = time.Hour }).run()
	require.Equal(t, "stream_error", r.code())
	require.Equal(t, 1, body.reads)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type timingOut struct{ reads int }

func (b *timingOut) Read([]byte) (int, error) {
	b.reads++
	return 0, fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded)
}

// A client that cannot be pinged has left.
func TestAPingThatFails(t *testing.T) {
	s, say := scripted(t)
	defer close(say)
	r := newTrip(t, s, testTransport(t), func(r *trip) { r.settings.Keepalive, r.onWrite = time.Millisecond, hangingUp })
	wait := r.start()
	say <- chunkedSSE
	wait()
	require.Equal(t, pipeline.ErrClientGone, r.err)
	require.Equal(t, pipeline.ClientLeft, r.leg.Outcome)
}
