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
	mu      sync.Mutex // held while the body is read
	closed  bool
	over    chan struct{} // closed when there is no more to read; nil if the body is no upload
	ended   atomic.Bool   // the same
	halting sync.Mutex
	halted  atomic.Bool           // the upload was told to end: what its Read gives then is nobody's fault
	source  atomic.Pointer[error] // what was wrong with the upload
}

// halt ends an upload, if it has not ended, so that a Read that waits returns. After shut it does nothing.
func (g *gate) halt(upload io.Reader) {
	g.halting.Lock()
	defer g.halting.Unlock()
	if closer, ok := upload.(io.Closer); ok && !g.ended.Load() && !g.halted.Swap(true) {
		_ = closer.Close()
	}
}

// shut returns when nobody reads the body any more, nor will.
func (g *gate) shut(upload io.Reader) {
	g.halt(upload)
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
		if !errors.Is(err, io.EOF) && !b.gate.halted.Load() {
			b.gate.source.Store(&err)
		}
		if !b.gate.ended.Swap(true) && b.gate.over != nil {
			close(b.gate.over)
		}
	}
	return n, err
}

func (b *gated) Close() error { return nil }
