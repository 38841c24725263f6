package engine

import (
	"net"
	"sync"
)

// TB is what Start needs of a *testing.T; this package is part of a program and does not import testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Running is an engine that serves on a loopback port.
type Running struct {
	*Engine
	URL string // http://127.0.0.1:<port>, without a slash at its end

	addr string
	wg   sync.WaitGroup
}

// Start serves an engine on a free loopback port until the test ends.
func Start(tb TB, cfg Config) *Running {
	tb.Helper()
	r := &Running{Engine: New(cfg), addr: "127.0.0.1:0"}
	if err := r.Up(); err != nil {
		tb.Fatalf("engine: %v", err)
	}
	r.URL = "http://" + r.addr
	tb.Cleanup(r.Down)
	return r
}

// Down closes the port and all connections, as an engine that dies does. URL stays.
func (r *Running) Down() {
	r.Close()
	r.wg.Wait()
}

// Up opens the port again after Down. It fails if another process has taken it.
func (r *Running) Up() error {
	ln, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	r.addr = ln.Addr().String()
	r.listen(ln)
	r.wg.Go(func() { _ = r.accept(ln) })
	return nil
}
