package forward

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// gate is what a body of the caller stands behind: a round tripper may read a request's body after it has returned, the
// caller of a call may not have it read after close.
type gate struct {
	mu     sync.Mutex // held while the body is read
	closed bool
	ended  atomic.Bool           // there is no more to read
	source atomic.Pointer[error] // what was wrong with the upload
}

// shut returns when nobody reads the body any more, nor will.
func (g *gate) shut(upload io.Reader) {
	if closer, ok := upload.(io.Closer); ok && !g.ended.Load() {
		_ = closer.Close()
	}
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
}

func (g *gate) failed() error {
	if err := g.source.Load(); err != nil {
		return *err
	}
	return nil
}

// gated is a body behind its gate.
type gated struct {
	gate *gate
	from io.Reader
}

func (b *gated) Read(p []byte) (int, error) {
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	if b.gate.closed {
		return 0, net.ErrClosed
	}
	n, err := b.from.Read(p)
	if err != nil {
		b.gate.ended.Store(true)
		if !errors.Is(err, io.EOF) {
			b.gate.source.Store(&err)
		}
	}
	return n, err
}

func (b *gated) Close() error { return nil }
