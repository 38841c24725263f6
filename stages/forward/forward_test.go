package forward

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

const jsonHead = okHead + "Content-Type: application/json\r\n"

// http-dataplane.md, sections 9.1 and 9.2; DECISIONS.md row 7; case C25: status, bytes and length are the worker's.
func TestWholeAnswersArriveAsTheyWere(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 20_000)
	numbers := `{"logprobs":[-Infinity,NaN,-1.5],"n":9007199254740993,"y":-0.0,"z":1e400}`
	sized := func(head, body string) string {
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	tests := []struct {
		name, raw string
		close     bool // the worker closes behind it
		status    int
		body      string
	}{
		{"a short one", sized(jsonHead, `{"id":1}`), false, 200, `{"id":1}`},
		{"numbers that JSON does not know", sized(jsonHead, numbers), false, 200, numbers},
		{"one of several reads", sized(jsonHead, long), false, 200, long},
		{"one in chunks", chunkedAnswer(jsonHead, `{"id`, `":1}`), false, 200, `{"id":1}`},
		{"a long one in chunks", chunkedAnswer(jsonHead, long[:100_000], long[100_000:]), false, 200, long},
		{"one that the end of the connection ends", jsonHead + "\r\n" + `{"id":1}`, true, 200, `{"id":1}`},
		{"an empty one", sized(okHead, ""), false, 200, ""},
		{"an empty one in chunks", chunkedAnswer(okHead), false, 200, ""},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", false, 204, ""},
		{"304 that declares a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, 304, ""},
		{"a redirect, which is not followed", sized("HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\n", "x"), false, 307, "x"},
		{"a refusal", sized("HTTP/1.1 422 No\r\n", `{"detail":"no"}`), false, 422, `{"detail":"no"}`},
		{"a status that nobody knows", sized("HTTP/1.1 799 Odd\r\n", "odd"), false, 799, "odd"},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				serve := answers(tt.raw)
				if tt.close {
					serve = once(tt.raw)
				}
				r := newTrip(t, listen(t, serve), rt, nil).run()
				require.NoError(t, r.err)
				require.Equal(t, tt.status, r.status)
				require.True(t, tt.body == r.got(), "%.200q", r.got())
				require.EqualValues(t, len(tt.body), r.length)
				require.Equal(t, pipeline.Answered, r.leg.Outcome)
				require.Equal(t, tt.status, r.leg.Status)
				require.False(t, r.leg.Streamed)
				moments := []string{fmt.Sprintf("head %d", tt.status), "first byte"}
				if tt.body == "" {
					moments = moments[:1]
				}
				require.Equal(t, moments, r.moments)
				require.Empty(t, r.pieces(), "who answers in one piece needs no flush")
			})
		}
	})
}

// case C40: the answer to HEAD has a length and no body.
func TestAnAnswerToHEADKeepsItsLength(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s := listen(t, answers(jsonHead+"Content-Length: 4096\r\n\r\n"))
		r := newTrip(t, s, rt, func(r *trip) {
			r.method, r.x.Body.Bytes, r.settings.MaxAnswer = "HEAD", nil, 100
		}).run()
		require.NoError(t, r.err)
		require.EqualValues(t, 4096, r.length)
		require.Empty(t, r.got())
	})
}

// What comes behind a body goes to the client behind it; a body whose length is declared has no room for it.
func TestTrailersArrive(t *testing.T) {
	raw := chunk("x: 1\n\n") + "0\r\nX-Sum: 7\r\nx-smg-error-code: boom\r\nX-Last: z\r\n\r\n"
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			head := okHead + "Content-Type: " + kind + "\r\nTrailer: X-Sum, X-Last\r\nTransfer-Encoding: chunked\r\n\r\n"
			r := newTrip(t, listen(t, answers(head+raw)), rt, nil).run()
			require.NoError(t, r.err)
			require.ElementsMatch(t, []pipeline.Field{{Name: "X-Sum", Value: "7"}, {Name: "X-Last", Value: "z"}}, r.trailers)
			require.EqualValues(t, -1, r.length)
			require.Equal(t, "x: 1\n\n", r.got())
		}
	})
}

// RFC 9110, section 15.2: informational heads are passed on, but for 100, which is the gateway's own affair, and to clients that
// do not know such a thing.
func TestInformationalHeadsArePassedOn(t *testing.T) {
	raw := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-SMG-Error-Code: boom\r\n\r\n" + okAnswer
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s := listen(t, answers(raw))
		r := newTrip(t, s, rt, nil).run()
		require.NoError(t, r.err)
		require.Equal(t, []string{"Early Hints Link: </a>"}, r.interims)
		require.Equal(t, "ok", r.got())
		require.Equal(t, []string{"head 200", "first byte"}, r.moments)

		r = newTrip(t, s, rt, func(r *trip) { r.protocol = "HTTP/1.0" }).run()
		require.NoError(t, r.err)
		require.Empty(t, r.interims)
	})
}

// A transport may tell of an informational head after it has given up: nobody is left to be told.
func TestALateInformationalHeadIsDropped(t *testing.T) {
	told := 0
	c := &call{Interim: func(int, []pipeline.Field) { told++ }}
	f := &foreign{}
	trace := httptrace.ContextClientTrace((&adapter{}).trace(t.Context(), c, f))
	c.reset() // as release does
	require.NoError(t, trace.Got1xxResponse(103, nil))
	require.Equal(t, 1, told, "while it waits")
	f.returned = true
	require.NoError(t, trace.Got1xxResponse(103, nil))
	require.Equal(t, 1, told)
}

// load-signals.md, section 2: a whole answer keeps its worker busy until it has been read, and a stream until it has been
// relayed. DESIGN: the connection goes back as early.
func TestWhenAWorkerIsNoLongerBusy(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, raw string
		busy      int64 // while the client is written to
		idle      int64 // connections meanwhile
	}{
		{"a short answer", jsonHead + "Content-Length: 2\r\n\r\n{}", 0, 0},
		{"a long answer", fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", jsonHead, len(long), long), 0, 1},
		{"a stream", chunkedAnswer(streamHead, event1), 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := testTransport(t)
			writes := 0
			r := newTrip(t, listen(t, answers(tt.raw)), tr, func(r *trip) {
				r.onWrite = func(*caller, []byte) error {
					writes++
					_, idle := tr.Connections()
					require.Equal(t, tt.idle, idle)
					require.Equal(t, tt.busy, r.worker.InFlight())
					return nil
				}
			}).run()
			require.NoError(t, r.err)
			require.Equal(t, 1, writes)
			_, idle := tr.Connections()
			require.EqualValues(t, 1, idle)
		})
	}
}

// http-dataplane.md, section 2.4: a route may make its answer of the worker's, but for errors and streams.
func TestReshapedAnswers(t *testing.T) {
	failed := &pipeline.Error{Status: 500, Code: "rerank_response_build_failed", Message: "no", Terminal: true}
	tests := []struct {
		name, raw string
		stream    bool
		want      string
		code      string
	}{
		{"a good answer", jsonHead + "Content-Length: 3\r\n\r\nabc", false, "<abc>", ""},
		{"a good answer to a request that asks for a stream", jsonHead + "Content-Length: 3\r\n\r\nabc", true, "<abc>", ""},
		{"an error of the worker", "HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\nabc", false, "abc", ""},
		{"one that cannot be reshaped", jsonHead + "Content-Length: 3\r\n\r\nbad", false, "", failed.Code},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newTrip(t, listen(t, answers(tt.raw)), testTransport(t), func(r *trip) {
				r.x.Body.Stream = tt.stream
				r.settings.Reshape = func(_ *pipeline.Exchange, body []byte) ([]byte, *pipeline.Error) {
					if string(body) == "bad" {
						return nil, failed
					}
					return []byte("<" + string(body) + ">"), nil
				}
			}).run()
			require.Equal(t, tt.code, r.code())
			require.Equal(t, pipeline.Answered, r.leg.Outcome, "whatever becomes of it, the worker has answered")
			if tt.code == "" {
				require.Equal(t, tt.want, r.got())
				require.EqualValues(t, len(tt.want), r.length)
			}
		})
	}
}

// DESIGN: a panic gives back what was taken, and leaves the passage fit for another request.
func TestAPanicLeavesNothingBehind(t *testing.T) {
	s := listen(t, answers(chunkedAnswer(streamHead, event1, event2)))
	tr := testTransport(t)
	for range 3 {
		r := newTrip(t, s, tr, func(r *trip) { r.onWrite = func(*caller, []byte) error { panic("boom") } })
		require.Equal(t, "internal_error", r.run().code())
		open, _ := tr.Connections()
		require.Zero(t, open)
	}
	r := newTrip(t, s, tr, nil).run()
	require.NoError(t, r.err)
	require.Equal(t, event1+event2, r.got())
}

// Attempts of a short while share a deadline; none has less time than its worker's settings say, and none much more.
func TestDeadlinesAreShared(t *testing.T) {
	var f forward
	start := time.Now()
	first := f.deadline(start, time.Minute)
	require.Equal(t, first, f.deadline(start.Add(time.Millisecond), time.Minute))
	require.Equal(t, start.Add(90*time.Second+90*time.Millisecond), f.deadline(start, 90*time.Second), "another worker's")
	for after := time.Duration(0); after < time.Second; after += 7 * time.Millisecond {
		has := f.deadline(start.Add(after), time.Minute).Sub(start.Add(after))
		require.GreaterOrEqual(t, has, time.Minute)
		require.LessOrEqual(t, has, time.Minute+time.Minute/1000)
	}
}

// Requests of all kinds at once over passages, connections and buffers that are used again: each gets its own answer, and nothing
// of another's.
func TestRequestsNeverMix(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s := listen(t, parrot)
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 40 {
					if t.Failed() {
						return
					}
					mixed(t, s, rt, fmt.Sprintf("<%d-%d>", g, i))
				}
			})
		}
		wg.Wait()
	})
}

// mixed is a request of some kind, which gets its own id back many times.
func mixed(t *testing.T, s *rawServer, rt http.RoundTripper, id string) {
	c := newCaller(t)
	c.header.Set("X-Request-Id", id)
	x := &pipeline.Exchange{Client: c}
	x.Body.Bytes = []byte(strings.Repeat(id, 1+rand.IntN(2000)))
	kind := rand.IntN(4)
	x.Body.Stream = kind%2 == 0
	if x.Body.Stream {
		c.path = "/stream"
	}
	left := false
	switch rand.IntN(6) {
	case 0:
		left = true
		go c.leave()
	case 1:
		left = true
		c.onWrite = hangingUp
	case 2:
		x.Body.Streamed, c.body, x.Body.Bytes = true, strings.NewReader(string(x.Body.Bytes[len(id):])), nil
		x.Body.Peeked = []byte(id)
	}
	w := workerAt(t, "http://"+s.Dial, "", workers.DefaultHTTPPoolSettings())
	chain, err := pipeline.Assemble("POST /x", pipeline.StageFunc("target", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}},
		func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Legs.Add(w, w.Type())
			return next(x)
		}), To(rt, Settings{Keepalive: time.Hour}))
	if err != nil {
		t.Error(err)
		return
	}
	err = chain.Run(x)
	got := c.got()
	if err != nil && !left {
		t.Errorf("%s: %v", id, err)
	}
	if rest := strings.ReplaceAll(got, id, ""); strings.Trim(rest, "\n") != "" && !left {
		t.Errorf("%s got %.60q", id, rest)
	}
	if err == nil && (len(got) == 0 || fieldValue(c.fields, "X-Id") != id) {
		t.Errorf("%s got %d bytes and %v", id, len(got), c.fields)
	}
}

// parrot gives back what it is sent, as the path says.
func parrot(p *peer) {
	for {
		req, body := p.request()
		if req == nil {
			return
		}
		id := req.Header.Get("X-Request-Id")
		head := "HTTP/1.1 200 OK\r\nX-Id: " + id + "\r\n"
		answer := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
		if req.URL.Path == "/stream" {
			answer = chunkedAnswer(head+"Content-Type: text/event-stream\r\n", id+"\n\n", string(body), id)
		}
		if _, err := io.WriteString(p, answer); err != nil {
			return
		}
	}
}
