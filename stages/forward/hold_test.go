package forward

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// DESIGN section 3, "Errors and retries"; case C11: an answer that may be replaced is kept as it came, and nothing is written.
func TestAHeldAnswer(t *testing.T) {
	limit := strings.Repeat("x", held)
	tests := []struct{ name, raw, body string }{
		{"a short one", "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy", "busy"},
		{"one in chunks", chunkedAnswer("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n", "bu", "sy"), "busy"},
		{"an empty one", "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", ""},
		{"a stream", chunkedAnswer("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Type: text/event-stream\r\n", event1), event1},
		{"one of the greatest length", fmt.Sprintf("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n%s", held, limit), limit},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := listen(t, answers(tt.raw))
				var kept *pipeline.Error
				r := newTrip(t, s, rt, func(r *trip) {
					r.x.Body.Stream = true
					r.x.Judge = holding(503)
					r.settings.MaxAnswer = 1 // is for answers that are relayed
				})
				// A stage in the place of the retry stage looks at the error before it is answered.
				r.between = func(err error) error {
					kept = pipeline.AsError(err)
					require.Zero(t, r.status, "nothing was written")
					require.Empty(t, r.pieces())
					return err
				}
				r.run()
				require.Equal(t, 503, kept.Status)
				require.False(t, kept.Terminal)
				require.Equal(t, 503, kept.Held.Status)
				require.True(t, tt.body == string(kept.Held.Body))
				require.Equal(t, "7", fieldValue(kept.Held.Fields, "Retry-After"))
				require.Equal(t, r.worker.URL(), fieldValue(kept.Held.Fields, "X-Smg-Routed-Worker-Id"))
				require.Equal(t, pipeline.Answered, r.leg.Outcome)
				require.Equal(t, 503, r.leg.Status)

				require.Equal(t, 503, r.status, "if it is the last one, it goes out")
				require.True(t, tt.body == r.got())
			})
		}
	})
}

// Passage, connection and buffers serve other requests while an answer is held.
func TestAHeldAnswerIsACopy(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 503 Busy\r\nX-Name: first\r\nContent-Length: 5\r\n\r\nfirst",
		chunkedAnswer("HTTP/1.1 503 Busy\r\nX-Name: first\r\n", "fir", "st"),
	} {
		s := listen(t, func(p *peer) {
			for answer := raw; ; answer = strings.NewReplacer("fir", "oth", "st", "er", "503 Busy", "200 Okay").Replace(raw) {
				if r, _ := p.request(); r == nil {
					return
				}
				_, _ = p.Write([]byte(answer))
			}
		})
		tr := testTransport(t)
		r := newTrip(t, s, tr, func(r *trip) { r.x.Judge = holding(503) })
		r.between = func(err error) error {
			for range 20 {
				require.Equal(t, "other", newTrip(t, s, tr, nil).run().got())
			}
			return err
		}
		r.run()
		require.Equal(t, "first", r.got())
		require.Equal(t, "first", r.field("X-Name"))
		require.EqualValues(t, 1, s.accepted.Load())
	}
}

func TestAHeldAnswerKeepsItsTrailers(t *testing.T) {
	raw := "HTTP/1.1 503 Busy\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("busy") + "0\r\nX-Sum: 7\r\nTe: x\r\n\r\n"
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		r := newTrip(t, listen(t, answers(raw)), rt, func(r *trip) { r.x.Judge = holding(503) }).run()
		require.Equal(t, []pipeline.Field{{Name: "X-Sum", Value: "7"}}, r.trailers)
	})
}

// DESIGN section 3: a longer one is relayed, and ends the attempts.
func TestAnAnswerThatIsTooLongToHold(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", held/16) + "!"
	tests := []struct {
		name, raw string
		length    int64
	}{
		{"by its declaration", fmt.Sprintf("HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s", len(long), long), int64(len(long))},
		{"as it turns out", chunkedAnswer("HTTP/1.1 503 Busy\r\n", long[:1000], long[1000:]), -1},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			r := newTrip(t, listen(t, answers(tt.raw)), rt, func(r *trip) { r.x.Judge = holding(503) }).run()
			require.NoError(t, r.err, "an answer, and no reason for another attempt")
			require.Equal(t, 503, r.status)
			require.Equal(t, tt.length, r.length)
			require.True(t, long == r.got())
			require.Equal(t, pipeline.Answered, r.leg.Outcome)
			require.Equal(t, []string{"head 503", "first byte"}, r.moments)
		}
	})
}

func TestAnAnswerThatBreaksWhileItIsHeld(t *testing.T) {
	long := strings.Repeat("x", held+1)
	tests := []struct {
		name, raw string
		status    int
		code      string
		outcome   pipeline.Outcome
		cut       bool
	}{
		{"before anything was written", "HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy", 502, "read_response_body_failed", pipeline.Broken, false},
		{"when it was too long and is relayed", "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(long) + "zz", 503, "stream_error", pipeline.Broken, true},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			r := newTrip(t, listen(t, once(tt.raw)), rt, func(r *trip) { r.x.Judge = holding(503) }).run()
			require.Equal(t, tt.code, r.code(), tt.name)
			require.Equal(t, tt.status, r.status, tt.name)
			require.Equal(t, tt.outcome, r.leg.Outcome, tt.name)
			require.Equal(t, 503, r.leg.Status, tt.name)
			require.Equal(t, tt.cut, r.aborted, tt.name)
			if tt.cut {
				require.True(t, long == r.got(), "what had come arrives")
			}
		}
	})
	t.Run("by its time", func(t *testing.T) {
		s := listen(t, silent("HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy"))
		r := newTrip(t, s, testTransport(t), func(r *trip) {
			r.x.Judge, r.limits.RequestTimeout = holding(503), 50*time.Millisecond
		}).run()
		require.Equal(t, "call_upstream_timeout", r.code())
		require.Equal(t, pipeline.TimedOut, r.leg.Outcome)
	})
}

// An answer that declares much has only been promised.
func TestRoomIsMadeForWhatMayBeKept(t *testing.T) {
	tests := []struct{ length, limit, room int64 }{
		{-1, 0, 0},
		{-1, held, 0},
		{100 << 10, 0, 100 << 10},
		{8 << 20, held, held},
		{1 << 40, 0, 0},
		{1 << 40, 1 << 30, 0},
	}
	for _, tt := range tests {
		var p passage
		p.reserve(tt.length, tt.limit)
		require.EqualValues(t, tt.room, cap(p.whole), "%+v", tt)
	}
}
