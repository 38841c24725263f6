package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// hangups notices clients that leave. It asks the kernel once for each connection; a request costs nothing. Without it, net/http
// would keep a goroutine, a read and two deadlines busy for each request to find out the same.
type hangups struct {
	file *os.File // an epoll descriptor, which the runtime's own poller waits on
	fd   int

	mu    sync.Mutex
	conns map[int32]*conn // nil once closed: then the descriptor's number may be another's
	added int32           // tells one connection from the next that gets its number
}

// place is where a connection is known: the number of its socket, and which of those that had that number it is.
type place struct{ fd, turn int32 }

// newHangups makes one, whose run waits until close. The error is the kernel's: no descriptors left.
func newHangups() (*hangups, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // else the runtime would not poll it
		_ = syscall.Close(fd)
		return nil, err
	}
	return &hangups{file: os.NewFile(uintptr(fd), "hangups"), fd: fd, conns: map[int32]*conn{}}, nil
}

func (h *hangups) close() {
	h.mu.Lock()
	h.conns = nil
	h.mu.Unlock()
	_ = h.file.Close()
}

// add begins to watch a connection; false if it cannot be watched, and net/http has to.
func (h *hangups) add(c *conn) bool {
	fd, ok := descriptor(c.Conn)
	if !ok {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		return false
	}
	h.added++
	c.place = place{fd, h.added}
	event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: fd, Pad: h.added}
	if err := syscall.EpollCtl(h.fd, syscall.EPOLL_CTL_ADD, int(fd), &event); err != nil {
		return false
	}
	h.conns[fd] = c
	return true
}

// remove is called before the connection is closed: then its number may be another's.
func (h *hangups) remove(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[c.place.fd] == c {
		delete(h.conns, c.place.fd)
		_ = syscall.EpollCtl(h.fd, syscall.EPOLL_CTL_DEL, int(c.place.fd), &syscall.EpollEvent{})
	}
}

// at is the connection that an event is about; nil if it was closed meanwhile.
func (h *hangups) at(p place) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.conns[p.fd]; c != nil && c.place == p {
		return c
	}
	return nil
}

// run tells connections that their client has left, until close.
func (h *hangups) run() {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return // closed already
	}
	events := make([]syscall.EpollEvent, 64)
	for {
		var n int
		var failed error
		closed := raw.Read(func(fd uintptr) (done bool) {
			n, failed = syscall.EpollWait(int(fd), events, 0)
			return n != 0
		})
		if closed != nil || failed != nil && !errors.Is(failed, syscall.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if c := h.at(place{e.Fd, e.Pad}); c != nil {
				c.departure.Happen()
			}
		}
	}
}

// descriptor is the number of a connection's socket. It stays the same until the connection is closed.
func descriptor(c net.Conn) (fd int32, ok bool) {
	if over, is := c.(interface{ NetConn() net.Conn }); is { // TLS
		c = over.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(f uintptr) { fd = int32(f) })
	return fd, err == nil
}
