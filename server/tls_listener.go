package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// tlsListener hands out connections whose handshake is over, so that it is known which protocol they speak: those with HTTP/2 are
// net/http's to serve, those with HTTP/1.1 get a [conn] like any other. A client that is slow with its handshake holds up nobody.
type tlsListener struct {
	net.Listener
	config   *tls.Config
	limit    time.Duration // of a handshake; 0: none
	timedOut func(idle bool)
	log      *slog.Logger

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	work  sync.WaitGroup
	made  chan net.Conn
	ended chan error // why there are no more
}

func newTLSListener(inner net.Listener, config *tls.Config, limit time.Duration, timedOut func(bool), log *slog.Logger) *tlsListener {
	ctx, stop := context.WithCancel(context.Background())
	l := &tlsListener{
		Listener: inner, config: config, limit: limit, timedOut: timedOut, log: log,
		ctx: ctx, stop: stop, made: make(chan net.Conn), ended: make(chan error, 1),
	}
	l.work.Go(l.run)
	return l
}

func (l *tlsListener) run() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				l.ended <- err
				return
			}
			l.log.Warn("a connection could not be accepted", "error", err) // out of descriptors, mostly
			select {
			case <-time.After(100 * time.Millisecond):
			case <-l.ctx.Done():
			}
			continue
		}
		l.work.Go(func() { l.shake(c) })
	}
}

// shake makes the handshake, and hands the connection out.
func (l *tlsListener) shake(raw net.Conn) {
	ctx, cancel := l.ctx, context.CancelFunc(func() {})
	if l.limit > 0 {
		ctx, cancel = context.WithTimeout(l.ctx, l.limit)
	}
	defer cancel()
	c := tls.Server(raw, l.config)
	if err := c.HandshakeContext(ctx); err != nil {
		l.failed(ctx, raw, err)
		return
	}
	select {
	case l.made <- c:
	case <-l.ctx.Done():
		_ = raw.Close()
	}
}

func (l *tlsListener) failed(ctx context.Context, raw net.Conn, err error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		l.timedOut(false)
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil && looksLikeHTTP(e.RecordHeader) {
		_ = raw.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(raw, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port speaks HTTPS.\n")
	}
	_ = raw.Close()
	l.log.Debug("TLS handshake failed", "peer", raw.RemoteAddr().String(), "error", err)
}

// looksLikeHTTP tells the beginning of a request without TLS: that of a method.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.made:
		return c, nil
	case err := <-l.ended:
		l.ended <- err // for whoever asks again
		return nil, err
	}
}

// Close gives handshakes up, and waits for their end. Connections that were handed out stay.
func (l *tlsListener) Close() error {
	err := l.Listener.Close()
	l.stop()
	l.work.Wait()
	return err
}
