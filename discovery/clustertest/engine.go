package clustertest

import (
	"fmt"
	"net"
	"sync"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Port is where all engines listen that are not told another one, each on an address of its own: what --service-discovery-port is in
// these tests. It is outside of the range from which outgoing connections get theirs.
const Port = 18000

// Engine is a mock engine that serves on an address of 127.0.0.0/8, as a container does on the address of its pod.
type Engine struct {
	*engine.Engine
	IP   string
	Port int

	ln net.Listener
	wg sync.WaitGroup
}

// StartEngine serves a mock engine on an address of its own until the test ends. At most one cfg is heeded.
func StartEngine(tb TB, cfg ...engine.Config) *Engine {
	tb.Helper()
	return StartEngineAt(tb, IP(tb), Port, cfg...)
}

// StartEngines serves so many engines.
func StartEngines(tb TB, n int, cfg ...engine.Config) []*Engine {
	tb.Helper()
	all := make([]*Engine, n)
	for i := range all {
		all[i] = StartEngine(tb, cfg...)
	}
	return all
}

// StartEngineAt serves a mock engine on another address or port: a second engine of a pod. Port 0 is a free one.
func StartEngineAt(tb TB, ip string, port int, cfg ...engine.Config) *Engine {
	tb.Helper()
	what := engine.Config{Keep: 1000}
	if len(cfg) > 0 {
		what = cfg[0]
	}
	e := &Engine{Engine: engine.New(what), IP: ip, Port: port}
	e.Up(tb)
	tb.Cleanup(e.Down)
	return e
}

// Address is the engine's ip:port.
func (e *Engine) Address() string { return net.JoinHostPort(e.IP, fmt.Sprint(e.Port)) }

// URL is the engine's, as a registration shows it.
func (e *Engine) URL() string { return "http://" + e.Address() }

// Down closes the port and all connections, as an engine that dies does: new connections are refused.
func (e *Engine) Down() {
	_ = e.ln.Close() // in case that the engine has not begun to serve it
	e.Close()
	e.wg.Wait()
}

// Up opens the port again after Down.
func (e *Engine) Up(tb TB) {
	tb.Helper()
	ln, err := net.Listen("tcp", e.Address())
	if err != nil {
		tb.Fatal(err)
	}
	e.Port = ln.Addr().(*net.TCPAddr).Port
	e.ln = ln
	e.wg.Go(func() { _ = e.Serve(ln) })
}

// Asked is how many requests for a path the engine has got; it counts the routes that the engine knows.
func (e *Engine) Asked(path string) int { return int(e.State().Paths[path]) }
