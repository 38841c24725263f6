package server

import (
	"net"
	"testing"
	"time"

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
	c, err := clientListener{l, h}.Accept()
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
			require.False(t, c.isGone())
			leave(peer)
			require.Eventually(t, c.isGone, patience, time.Millisecond)
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
	h := watching(t)
	first, _ := watchedConn(t, h)
	was := first.place
	require.Same(t, first, h.at(was))
	require.NoError(t, first.Close())
	require.Nil(t, h.at(was))

	second, _ := watchedConn(t, h)
	second.place.fd = was.fd // as if it had got the number
	h.conns[was.fd] = second
	require.Nil(t, h.at(was))
	delete(h.conns, was.fd)
}

func TestADeadlineIsKeptThatIsAsGood(t *testing.T) {
	second := int64(time.Second)
	tests := []struct {
		name      string
		has, want int64
		good      bool
	}{
		{"none for none", 0, 0, true},
		{"none for one", 0, second, false},
		{"one for none", second, 0, false},
		{"the same", second, second, true},
		{"a little earlier", second, second + second/2, true},
		{"much earlier", second, 3 * second, false},
		{"later", 2 * second, second, false},
		{"one that calls the read off", second, -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.good, asGood(tt.has, tt.want)) })
	}
}
