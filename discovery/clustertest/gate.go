package clustertest

import (
	"net"
	"sync"
)

// state is what a gate does with connections.
type state int

const (
	opened  state = iota
	stalled       // no byte passes
	cut           // new connections are reset
)

// gate is a listener whose connections can be reset and made to stall.
type gate struct {
	net.Listener

	mu    sync.Mutex
	state state
	turn  chan struct{} // closed when the state changes
	conns map[*gated]struct{}
}

func newGate(ln net.Listener) *gate {
	return &gate{Listener: ln, turn: make(chan struct{}), conns: map[*gated]struct{}{}}
}

func (g *gate) set(s state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = s
	close(g.turn)
	g.turn = make(chan struct{})
}

// reset ends all connections with a TCP reset.
func (g *gate) reset() {
	g.mu.Lock()
	var all []*gated
	for c := range g.conns {
		all = append(all, c)
	}
	g.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

// Accept gives the next connection that is not reset.
func (g *gate) Accept() (net.Conn, error) {
	for {
		nc, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &gated{Conn: nc, gate: g, closed: make(chan struct{})}
		g.mu.Lock()
		refused := g.state == cut
		if !refused {
			g.conns[c] = struct{}{}
		}
		g.mu.Unlock()
		if !refused {
			return c, nil
		}
		c.reset()
	}
}

// gated is a connection of a gate.
type gated struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

// pass waits until the gate is not stalled, or the connection is closed.
func (c *gated) pass() {
	for {
		c.gate.mu.Lock()
		state, turn := c.gate.state, c.gate.turn
		c.gate.mu.Unlock()
		if state != stalled {
			return
		}
		select {
		case <-turn:
		case <-c.closed:
			return
		}
	}
}

// Read hands on what has come in, when the gate lets it pass.
func (c *gated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.pass()
	return n, err
}

// Write writes when the gate lets it pass.
func (c *gated) Write(b []byte) (int, error) {
	c.pass()
	return c.Conn.Write(b)
}

// Close closes the connection.
func (c *gated) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}

func (c *gated) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
