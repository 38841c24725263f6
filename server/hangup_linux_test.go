package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// watchedConn is a watched connection and its client.
func watchedConn(t *testing.T, h *hangups) (*conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	c, err := clientListener{l, h, func(bool) {}}.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close(); _ = c.Close() })
	return c.(*conn), peer.(*net.TCPConn)
}

func watching(t *testing.T) *hangups {
	t.Helper()
	h, err := newHangups()
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { h.run(); close(done) }()
	t.Cleanup(func() { h.close(); <-done })
	return h
}

func TestAClientThatLeavesIsNoticedWithoutARead(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"it closes":             func(c *net.TCPConn) { _ = c.Close() },
		"it resets":             func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"it closes its half":    func(c *net.TCPConn) { _ = c.CloseWrite() },
		"it sends, then closes": func(c *net.TCPConn) { _, _ = c.Write([]byte("more")); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c, peer := watchedConn(t, watching(t))
			require.False(t, c.departure.Gone())
			leave(peer)
			require.Eventually(t, c.departure.Gone, patience, time.Millisecond)
		})
	}
}

// net/http reads a single byte in the background, for nothing if the connection is watched.
func TestTheBackgroundReadEndsAtOnce(t *testing.T) {
	c, _ := watchedConn(t, watching(t))
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.NoError(t, err)
}

// A socket's number is used again at once: what was said of the last connection must not hit the next.
func TestAConnectionIsNotTakenForTheOneBeforeIt(t *testing.T) {
	h, err := newHangups() // nobody runs it: events are not taken
	require.NoError(t, err)
	t.Cleanup(h.close)
	first, _ := watchedConn(t, h)
	was := first.place
	require.Same(t, first, h.at(was))
	require.NoError(t, first.Close())
	require.Nil(t, h.at(was))

	second, _ := watchedConn(t, h)
	now := second.place
	h.conns[was.fd] = second // as if it had got the number
	second.place.fd = was.fd
	require.Nil(t, h.at(was))
	delete(h.conns, was.fd)
	second.place = now
	h.conns[now.fd] = second
}

func TestADeadlineIsKeptThatIsAsGood(t *testing.T) {
	second := int64(time.Second)
	tests := []struct {
		name      string
		has, want int64
		good      bool
	}{
		{"none for none", 0, 0, true},
		{"none for one", 0, 90 * second, false},
		{"one for none", 90 * second, 0, false},
		{"the same", 90 * second, 90 * second, true},
		{"a little earlier than one that is far away", 89 * second, 90 * second, true},
		{"much earlier", 80 * second, 90 * second, false},
		{"a little earlier than one that is near", second / 2, second, false},
		{"later", 90 * second, 30 * second, false},
		{"one that calls the read off", 90 * second, -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.good, asGood(tt.has, tt.want, 0)) })
	}
}

// http-dataplane.md does not know these limits; DECISIONS 38.
func TestAClientThatSendsNothingIsTimedOutAndCounted(t *testing.T) {
	t.Parallel() // it waits
	tests := []struct{ name, sent, kind string }{
		{"a connection that sends nothing", "", "header_read"},
		{"a head that does not end", "GET /health HTTP/1.1\r\nHost: x\r\n", "header_read"},
		{"half a line", "GET /hea", "header_read"},
		{"half a field", "GET /health HTTP/1.1\r\nHost", "header_read"},
		{"a connection that is not used again", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "idle"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, func(c *Config) { c.HeaderReadTimeout, c.IdleConnectionTimeout = 1, 1 })
			c, err := net.Dial("tcp", g.main.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write([]byte(tt.sent))
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
			answer, err := io.ReadAll(c)
			require.NoError(t, err) // the gateway has closed it
			require.Equal(t, tt.kind == "idle", len(answer) > 0, "%q", answer)
			m := g.gateway.metrics.HTTP
			got := map[string]float64{"header_read": testutil.ToFloat64(m.HeaderTimeouts), "idle": testutil.ToFloat64(m.IdleTimeouts)}
			require.Equal(t, 1.0, got[tt.kind])
			require.Equal(t, 1.0, got["header_read"]+got["idle"])
		})
	}
}
