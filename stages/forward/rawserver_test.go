package forward

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// rawServer is a worker that a test has under control down to the bytes.
type rawServer struct {
	workers.Endpoint
	accepted atomic.Int64
	mu       sync.Mutex
	conns    []net.Conn
}

// peer is one connection to a rawServer.
type peer struct {
	net.Conn
	in     *bufio.Reader
	number int // of the connection, from 1
}

// listen starts a server that gives each connection to serve, on a goroutine, and closes it when that returns.
func listen(t testing.TB, serve func(p *peer)) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	s := &rawServer{Endpoint: workers.Endpoint{Scheme: "http", Dial: addr, Host: addr}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, nc)
			s.mu.Unlock()
			p := &peer{Conn: nc, in: bufio.NewReader(nc), number: int(s.accepted.Add(1))}
			wg.Go(func() {
				defer nc.Close()
				serve(p)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for _, nc := range s.conns {
			nc.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

// request reads one request with its body; nil when there is none.
func (p *peer) request() (*http.Request, []byte) {
	r, err := http.ReadRequest(p.in)
	if err != nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil
	}
	return r, body
}

// answers writes the same answer to each request.
func answers(raw string) func(p *peer) {
	return func(p *peer) {
		for {
			if r, _ := p.request(); r == nil {
				return
			}
			if _, err := io.WriteString(p, raw); err != nil {
				return
			}
		}
	}
}

// once writes one answer and closes.
func once(raw string) func(p *peer) {
	return func(p *peer) {
		if r, _ := p.request(); r != nil {
			_, _ = io.WriteString(p, raw)
		}
	}
}

// gone waits until the other side has closed.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.in) }

// testTransport is a transport that a test leaves with no connection open.
func testTransport(t testing.TB) *Transport {
	t.Helper()
	tr := NewTransport(Options{Pool: DefaultPool})
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		open, idle := tr.Connections()
		require.Zero(t, open, "connections left open")
		require.Zero(t, idle, "connections left idle")
	})
	return tr
}

// get is a call without body.
func (s *rawServer) get() *call {
	return &call{Pool: DefaultPool, Endpoint: &s.Endpoint, Method: "GET", Path: "/v1/models", Deadline: time.Now().Add(20 * time.Second)}
}

// post is a call with a body.
func (s *rawServer) post(body string) *call {
	c := s.get()
	c.Method, c.Path, c.Body = "POST", "/generate", []byte(body)
	return c
}

// read reads the rest of a body.
func (a *answer) read() (string, error) {
	var body []byte
	for {
		piece, err := a.next()
		if err == io.EOF { //nolint:errorlint // the contract of next
			return string(body), nil
		}
		if err != nil {
			return string(body), err
		}
		if len(piece) == 0 {
			panic("an empty piece")
		}
		body = append(body, piece...)
	}
}

// exchangeOnce sends a call, reads the answer and closes it.
func exchangeOnce(s sender, c *call) (status int, body string, err error) {
	a, err := s.send(c)
	if err != nil {
		return 0, "", err
	}
	defer a.close()
	body, err = a.read()
	return a.Status, body, err
}
