//go:build unix

package main

import (
	"net"
	"syscall"
)

// peek tells whether bytes wait on a connection, and whether the other end has closed it. It takes nothing.
func peek(c net.Conn) (waiting, closed bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false, true
	}
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		waiting = err == nil && n > 0
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR //nolint:errorlint // the system's own
	})
	return waiting, closed || err != nil
}
