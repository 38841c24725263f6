//go:build unix

package forward

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unresponsive is a server that lets connection attempts hang: nobody accepts, and its backlog is full.
func unresponsive(t *testing.T) *rawServer {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	s := &rawServer{}
	s.Dial = net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	s.Scheme, s.Host = "http", s.Dial
	for range 16 {
		nc, err := net.DialTimeout("tcp", s.Dial, 100*time.Millisecond)
		if err != nil {
			require.True(t, isTimeout(err), err)
			return s
		}
		t.Cleanup(func() { nc.Close() })
	}
	t.Skip("this system lets a full backlog grow")
	return nil
}

// case C05: the client may leave while the worker cannot even be reached.
func TestInterruptGivesUpDialling(t *testing.T) {
	s := unresponsive(t)
	tr, resends := counting(t)
	c := s.get()
	done := make(chan error, 1)
	go func() {
		_, err := tr.send(c)
		done <- err
	}()
	require.Eventually(t, func() bool { return c.holds.Load() != nil }, 5*time.Second, time.Millisecond)
	c.Interrupt()
	require.ErrorIs(t, <-done, errInterrupted)
	require.Zero(t, resends.Load())
}

// http-dataplane.md, section 8: a time-out of connecting is a time-out, and is not sent again.
func TestDiallingHasTwoLimits(t *testing.T) {
	s := unresponsive(t)
	tr, resends := counting(t)
	c := s.get()
	c.DialTimeout = 20 * time.Millisecond
	_, err := tr.send(c)
	require.ErrorIs(t, err, errTimeout, "its own")
	c = s.get()
	c.Deadline = time.Now().Add(20 * time.Millisecond)
	_, err = tr.send(c)
	require.ErrorIs(t, err, errTimeout, "the call's")
	require.Zero(t, resends.Load())
}
