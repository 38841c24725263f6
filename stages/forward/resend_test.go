package forward

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// counting is a test transport that counts what it sends a second time.
func counting(t *testing.T) (*Transport, *atomic.Int64) {
	tr, resends := testTransport(t), new(atomic.Int64)
	tr.options.OnResend = func() { resends.Add(1) }
	return tr, resends
}

// http-dataplane.md, section 8: the pre-response resend
func TestARequestWithoutAnyAnswerIsSentOnceMore(t *testing.T) {
	small, large := "{}", strings.Repeat("x", 2<<20)
	tests := []struct {
		name     string
		serve    func(p *peer)
		body     string
		noResend bool
		kind     error
		conns    int
		resends  int
	}{
		{"the first connection is closed, the second answers", func(p *peer) {
			p.request()
			if p.number > 1 {
				_, _ = io.WriteString(p, okAnswer)
			}
		}, small, false, nil, 2, 1},
		{"every connection is closed: two, then the error", func(p *peer) { p.request() }, small, false, errSend, 2, 1},
		{"closed before the request is read", func(*peer) {}, small, false, errSend, 2, 1},
		{"a body of 2 MiB is sent once", func(p *peer) { p.request() }, large, false, errSend, 1, 0},
		{"a body that must not be sent twice is not", func(p *peer) { p.request() }, small, true, errSend, 1, 0},
		{"one byte of an answer is an answer", func(p *peer) { p.request(); _, _ = io.WriteString(p, "H") }, small, false, errSend, 1, 0},
		{"what is no HTTP is an answer", func(p *peer) { p.request(); _, _ = io.WriteString(p, "BUSY") }, small, false, errSend, 1, 0},
		{"an informational head is an answer", func(p *peer) {
			p.request()
			_, _ = io.WriteString(p, "HTTP/1.1 102 Processing\r\n\r\n")
		}, small, false, errSend, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := listen(t, tt.serve)
			tr, resends := counting(t)
			c := s.post(tt.body)
			c.NoResend = tt.noResend
			_, _, err := exchangeOnce(tr, c)
			if tt.kind == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tt.kind)
			}
			require.EqualValues(t, tt.conns, s.accepted.Load(), "connections")
			require.EqualValues(t, tt.resends, resends.Load(), "resends")
		})
	}
}

func TestARefusedConnectionIsTriedOnceMore(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	s := &rawServer{}
	s.Scheme, s.Dial, s.Host = "http", ln.Addr().String(), ln.Addr().String()
	tr, resends := counting(t)
	_, err = tr.send(s.post("{}"))
	require.ErrorIs(t, err, errDial)
	require.EqualValues(t, 1, resends.Load())
}

func TestATimeoutIsNotSentAgain(t *testing.T) {
	s := listen(t, func(p *peer) { p.request(); p.gone() })
	tr, resends := counting(t)
	c := s.post("{}")
	c.Deadline = time.Now().Add(50 * time.Millisecond)
	_, err := tr.send(c)
	require.ErrorIs(t, err, errTimeout)
	require.Zero(t, resends.Load())
	c = s.post("{}")
	c.Deadline = time.Now().Add(-time.Second)
	_, err = tr.send(c)
	require.ErrorIs(t, err, errTimeout)
	require.LessOrEqual(t, s.accepted.Load(), int64(1), "a call that is late contacts nobody")
}

// case C39 (a): the worker closes a connection as soon as the head of its second request has come in.
func TestTheKeepAliveRaceIsInvisible(t *testing.T) {
	s := listen(t, func(p *peer) {
		if r, _ := p.request(); r != nil {
			_, _ = io.WriteString(p, okAnswer)
		}
		_, _ = p.in.ReadString('\n')
	})
	tr, resends := counting(t)
	for i := range 20 {
		_, body, err := exchangeOnce(tr, s.post("{}"))
		require.NoError(t, err, "request %d", i)
		require.Equal(t, "ok", body)
	}
	require.EqualValues(t, 20, s.accepted.Load())
	require.EqualValues(t, 19, resends.Load())
}

// case C39 (b), and a body that cannot be sent twice: what is known to be closed is not used.
func TestAClosedIdleConnectionIsNotedBeforeABodyIsLost(t *testing.T) {
	closed := make(chan struct{}, 8)
	s := listen(t, func(p *peer) {
		once(okAnswer)(p)
		p.Close()
		closed <- struct{}{}
	})
	tr, resends := counting(t)
	for range 3 {
		c := s.post("{}")
		c.NoResend = true
		_, _, err := exchangeOnce(tr, c)
		require.NoError(t, err)
		<-closed
		waitForEnd(t, tr, s)
	}
	require.Zero(t, resends.Load())
	require.EqualValues(t, 3, s.accepted.Load())
}

// waitForEnd waits until the end of the idle connection has come through the loopback.
func waitForEnd(t *testing.T, tr *Transport, s *rawServer) {
	t.Helper()
	st := tr.stack(address{s.Dial, DefaultPool})
	require.Eventually(t, func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return len(st.idle) == 1 && !st.idle[0].alive()
	}, 5*time.Second, time.Millisecond)
}

func TestUnsolicitedBytesEndAnIdleConnection(t *testing.T) {
	s := listen(t, func(p *peer) {
		if r, _ := p.request(); r == nil {
			return
		}
		_, _ = io.WriteString(p, okAnswer)
		if p.number == 1 {
			_, _ = io.WriteString(p, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		}
		p.gone()
	})
	tr, _ := counting(t)
	_, _, err := exchangeOnce(tr, s.post("{}"))
	require.NoError(t, err)
	if _, idle := tr.Connections(); idle == 1 { // else the stray answer came with the first one, and has ended it already
		waitForEnd(t, tr, s)
	}
	c := s.post("{}")
	c.NoResend = true
	status, _, err := exchangeOnce(tr, c)
	require.NoError(t, err)
	require.Equal(t, 200, status, "the stray answer belongs to nobody")
	require.EqualValues(t, 2, s.accepted.Load())
}

// A worker that refuses a request without reading it all may close while the rest is being written.
func TestAnEarlyAnswerIsReadThoughWritingFails(t *testing.T) {
	for _, size := range []int{direct, 8 << 20} {
		s := listen(t, func(p *peer) {
			_, _ = p.in.ReadString('\n')
			_, _ = io.WriteString(p, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
			p.gone() // the client closes when it has its answer; until then it may write
		})
		status, body, err := exchangeOnce(testTransport(t), s.post(strings.Repeat("x", size)))
		require.NoError(t, err)
		require.Equal(t, 413, status)
		require.Equal(t, "big", body)
	}
}

// The same when the worker reads nothing at all: the answer must not wait for the write.
func TestAnAnswerIsReadWhileTheWorkerReadsNothing(t *testing.T) {
	release := make(chan struct{})
	s := listen(t, func(p *peer) {
		_, _ = io.WriteString(p, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
		<-release
	})
	tr := testTransport(t)
	status, body, err := exchangeOnce(tr, s.post(strings.Repeat("x", 64<<20)))
	close(release)
	require.NoError(t, err)
	require.Equal(t, 503, status)
	require.Equal(t, "busy", body)
	open, _ := tr.Connections()
	require.Zero(t, open, "a connection on which half a request was sent is not kept")
}
