//go:build unix

package forward

import (
	"errors"
	"net"
	"syscall"
)

// peeker looks into a socket without reading from it. It is a part of the connection, so that looking allocates nothing.
type peeker struct {
	quiet bool
	look  func(fd uintptr)
	byte  [1]byte
}

// watch prepares the connection for alive.
func (c *conn) watch() {
	if sc, ok := c.net.(*net.TCPConn); ok {
		c.raw, _ = sc.SyscallConn()
		c.peek.look = c.peek.at
	}
}

// at asks for one byte without waiting (Go's sockets never block): an idle connection that is well has none, and no end.
func (p *peeker) at(fd uintptr) {
	_, _, err := syscall.Recvfrom(int(fd), p.byte[:], syscall.MSG_PEEK)
	p.quiet = errors.Is(err, syscall.EAGAIN)
}

// alive tells whether an idle connection is open as far as one can see, and the peer has sent nothing that nobody asked for.
func (c *conn) alive() bool {
	c.peek.quiet = false
	return c.raw != nil && c.raw.Control(c.peek.look) == nil && c.peek.quiet
}
