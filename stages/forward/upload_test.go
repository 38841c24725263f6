package forward

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// dripping is an upload that a test has in its hand. It ends when the channel is closed, and fails when the stage stops reading.
type dripping struct {
	drops   chan string
	stopped chan struct{}
	rest    string
}

func (d *dripping) Read(p []byte) (int, error) {
	for d.rest == "" {
		select {
		case drop, more := <-d.drops:
			if !more {
				return 0, io.EOF
			}
			d.rest = drop
		case <-d.stopped:
			return 0, os.ErrDeadlineExceeded // what a connection's read gives
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// drip makes the request's body one that drips.
func (r *trip) drip() *dripping {
	d := &dripping{drops: make(chan string, 8), stopped: make(chan struct{})}
	r.body, r.stopped = d, sync.OnceFunc(func() { close(d.stopped) })
	return d
}

// http-dataplane.md, section 4: what was read ahead goes first; nothing of it is changed, and it is sent in chunks.
func TestAStreamedUploadArrivesByteForByte(t *testing.T) {
	long := strings.Repeat("0123456789\r\n", 20_000)
	plain := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	tests := []struct {
		name, peeked string
		rest         func() io.Reader
		want         string
		limit        int64
	}{
		{"read ahead, then the rest", "abc", plain("def"), "abcdef", 0},
		{"all of it read ahead", "abc", plain(""), "abc", 0},
		{"nothing read ahead", "", plain("def"), "def", 0},
		{"a byte at a time", "abc", func() io.Reader { return iotest.OneByteReader(strings.NewReader("def")) }, "abcdef", 0},
		{"the end comes with the last bytes", "", func() io.Reader { return iotest.DataErrReader(strings.NewReader("def")) }, "def", 0},
		{"a long one", long, plain(long), long + long, 0},
		{"exactly as long as may be", "abc", plain("def"), "abcdef", 6},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		bodies := make(chan string, 1)
		s := listen(t, func(p *peer) {
			for {
				r, body := p.request()
				if r == nil {
					return
				}
				bodies <- string(body)
				_, _ = io.WriteString(p, okAnswer)
			}
		})
		for _, tt := range tests {
			r := newTrip(t, s, rt, func(r *trip) {
				r.body, r.x.Body.Peeked, r.settings.MaxUpload = tt.rest(), []byte(tt.peeked), tt.limit
				r.stopped = func() { t.Error("a whole upload needs no end") }
			}).run()
			require.NoError(t, r.err, tt.name)
			require.Equal(t, "ok", r.got(), tt.name)
			got := <-bodies
			require.True(t, tt.want == got, "%s: %.100q", tt.name, got)
		}
	})
}

// http-dataplane.md, sections 4 and 15: the client's faults are answered to it, and charged to nobody else.
func TestUploadsThatTheClientSpoils(t *testing.T) {
	plain := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	broken := func(err error) func() io.Reader {
		return func() io.Reader { return io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(err)) }
	}
	tests := []struct {
		name   string
		body   func() io.Reader
		said   string // by the worker, meanwhile
		limit  int64
		status int
		code   string
		leg    int // its status
	}{
		{"it breaks off", broken(errors.New("reset")), "", 0, 400, "request_body_aborted", 0},
		{"it stalls", broken(os.ErrDeadlineExceeded), "", 0, 408, "request_body_stalled", 0},
		{"it is too large", plain("abcdef"), "", 5, 413, "request_body_too_large", 0},
		{"it is too large with what was read ahead", plain("abc"), "", 8, 413, "request_body_too_large", 0},
		{"it breaks off when a stream has begun", broken(errors.New("reset")), chunkedSSE, 0, 400, "request_body_aborted", 200},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := listen(t, func(p *peer) {
					_, _ = p.in.ReadString('\n')
					_, _ = io.WriteString(p, tt.said)
					p.gone()
				})
				r := newTrip(t, s, rt, func(r *trip) {
					r.body, r.x.Body.Peeked, r.settings.MaxUpload = tt.body(), []byte("begun,"), tt.limit
				})
				if tt.said != "" { // not before the worker has answered
					r.onRead = func() {
						require.Eventually(t, func() bool { return r.momentCount() == 1 }, waiting, time.Millisecond)
					}
				}
				r.run()
				require.Equal(t, tt.status, r.status)
				require.Equal(t, tt.code, r.code())
				require.True(t, pipeline.AsError(r.err).Terminal)
				require.Equal(t, pipeline.ClientFault, r.leg.Outcome)
				require.Equal(t, tt.leg, r.leg.Status)
			})
		}
	})
}

// http-dataplane.md, section 4: a worker may answer before it has read everything. Its answer goes to the client, whom nobody
// reads from any more.
func TestAnAnswerBeforeTheEndOfTheUpload(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
		chunkedAnswer("HTTP/1.1 413 Too Large\r\n", strings.Repeat("x", 100_000)),
		"HTTP/1.1 413 Too Large\r\n\r\nbig", // and it closes
	} {
		onBoth(t, func(t *testing.T, rt http.RoundTripper) {
			s := listen(t, func(p *peer) {
				if _, err := http.ReadRequest(p.in); err != nil {
					return
				}
				readUntil(p, "begun\r\n") // a connection that is closed with bytes unread may lose the answer
				_, _ = io.WriteString(p, raw)
				if !strings.HasSuffix(raw, "Large\r\n\r\nbig") {
					p.gone()
				}
			})
			var d *dripping
			r := newTrip(t, s, rt, func(r *trip) { d = r.drip() })
			d.drops <- "begun"
			r.run()
			require.NoError(t, r.err)
			require.Equal(t, 413, r.status)
			require.NotEmpty(t, r.got())
			require.Equal(t, pipeline.Answered, r.leg.Outcome)
			<-d.stopped
		})
	}
}

// A client is not read and written at once: a stream that begins early is relayed when the upload has ended.
func TestAStreamBeforeTheEndOfTheUpload(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		bodies := make(chan string, 1)
		s := listen(t, func(p *peer) {
			r, err := http.ReadRequest(p.in)
			if err != nil {
				return
			}
			_, _ = io.WriteString(p, chunkedSSE+chunk(event1))
			body, _ := io.ReadAll(r.Body)
			bodies <- string(body)
			_, _ = io.WriteString(p, chunk(event2)+"0\r\n\r\n")
		})
		var d *dripping
		r := newTrip(t, s, rt, func(r *trip) { d = r.drip() })
		d.drops <- "begun"
		wait := r.start()
		require.Eventually(t, func() bool { return r.momentCount() == 1 }, waiting, time.Millisecond)
		require.Empty(t, r.pieces())
		d.drops <- ", ended"
		close(d.drops)
		wait()
		require.NoError(t, r.err)
		require.Equal(t, "begun, ended", <-bodies)
		require.Equal(t, event1+event2, r.got())
	})
}

// DECISIONS.md row 5 and http-dataplane.md, section 4: when the time runs out it is whoever is being waited for that is at fault.
func TestAnUploadThatIsNotOverInTime(t *testing.T) {
	tests := []struct {
		name    string
		reads   bool // the worker does
		said    string
		outcome pipeline.Outcome
		code    string
	}{
		{"a client that trickles", true, "", pipeline.ClientFault, "request_body_stalled"},
		{"a client that trickles when a stream has begun", true, chunkedSSE, pipeline.ClientFault, "request_body_stalled"},
		{"a client that trickles in the middle of an answer", true, jsonHead + "Content-Length: 9\r\n\r\n{", pipeline.ClientFault, "request_body_stalled"},
		{"a worker that does not read", false, "", pipeline.TimedOut, "call_upstream_timeout"},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				over := make(chan struct{})
				s := listen(t, func(p *peer) {
					if !tt.reads {
						<-over
						return
					}
					_, _ = p.in.ReadString('\n')
					_, _ = io.WriteString(p, tt.said)
					p.gone()
				})
				r := newTrip(t, s, rt, func(r *trip) {
					r.limits.RequestTimeout = 100 * time.Millisecond
					if tt.reads {
						r.drip().drops <- "begun"
					} else {
						r.body = zeros{} // more than any socket takes
					}
				}).run()
				close(over)
				require.Equal(t, tt.outcome, r.leg.Outcome)
				require.Equal(t, tt.code, r.code())
			})
		}
	})
}

// zeros is an upload that does not end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An upload has one attempt, and an informational head, which would be written while the client is being read, is left out.
func TestNoInformationalHeadDuringAnUpload(t *testing.T) {
	s := listen(t, func(p *peer) {
		r, err := http.ReadRequest(p.in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(p, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(p, okAnswer)
	})
	r := newTrip(t, s, testTransport(t), func(r *trip) { r.body = strings.NewReader("abc") }).run()
	require.NoError(t, r.err)
	require.Empty(t, r.interims)
}
