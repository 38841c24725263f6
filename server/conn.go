package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// conn is one client connection. It knows what net/http knows and does not tell: that the client has left, which it finds out
// when the server's own background read fails; and it gives a time-out to reads of a body only when they go to the network.
type conn struct {
	net.Conn
	patience atomic.Int64 // nanoseconds that one read of a body may wait; 0: for ever

	mu       sync.Mutex
	watchers []pipeline.GoneWatcher
	gone     bool
}

// clientListener hands out connections that notice when their client leaves.
type clientListener struct{ net.Listener }

func (l clientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

func (c *conn) Read(p []byte) (int, error) {
	if d := c.patience.Load(); d > 0 {
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Duration(d)))
	}
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.left()
	}
	return n, err
}

// Close is the server's: whoever still waits for the client waits in vain.
func (c *conn) Close() error {
	c.left()
	return c.Conn.Close()
}

// left tells everybody who watches. The lock is held meanwhile: when Unwatch returns, nobody is being told any more.
func (c *conn) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, w := range c.watchers {
		w.ClientGone()
	}
	c.watchers = nil
}

func (c *conn) watch(w pipeline.GoneWatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		w.ClientGone()
		return
	}
	c.watchers = append(c.watchers, w)
}

func (c *conn) unwatch(w pipeline.GoneWatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.watchers, w); i >= 0 {
		c.watchers = slices.Delete(c.watchers, i, i+1)
	}
}

func (c *conn) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// endPatience takes the time-out of body reads away.
func (c *conn) endPatience() {
	if c.patience.Swap(0) > 0 {
		_ = c.Conn.SetReadDeadline(time.Time{})
	}
}

type connKey struct{}

// withConn remembers the connection for its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if own, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}
