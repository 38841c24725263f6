package main

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// witness sees, on the connections of the engines, each attempt at each request: whether one begins while another is open, or after the
// client has got a byte of an answer.
type witness struct {
	mu       sync.Mutex
	attempts map[string][]*attempt  // by request id
	clients  map[string]*clientConn // of the requests under way
	doubles  int
	example  string
}

// attempt is one request as an engine got it.
type attempt struct {
	conn   *watchedConn
	began  time.Time
	answer message
	over   bool // answered, or its connection was closed
}

func newWitness() *witness {
	return &witness{attempts: map[string][]*attempt{}, clients: map[string]*clientConn{}}
}

// sends notes who sends a request. The returned function is called when that is over.
func (w *witness) sends(id string, c *clientConn) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[id] = c
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.clients, id)
	}
}

// duplicated is how often an attempt was one too many, and an example.
func (w *witness) duplicated() (int, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doubles, w.example
}

// begin notes an attempt. What smg has done before it, to the connection of the attempt before or to that of the client, the system
// knows, even if nobody has heard of it yet.
func (w *witness) begin(id string, c *watchedConn) *attempt {
	a := &attempt{conn: c, began: time.Now()}
	if id == "" {
		return a
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.attempts[id]; len(before) > 0 {
		w.judge(id, a, before)
	}
	w.attempts[id] = append(w.attempts[id], a)
	return a
}

// judge compares an attempt with those before. One that has been given up by the time that it is seen has come before them: they are
// seen in the order in which the engines' goroutines run.
func (w *witness) judge(id string, a *attempt, before []*attempt) {
	if _, closed := peek(a.conn.Conn); closed {
		a.over = true
		return
	}
	last := before[len(before)-1] // each has been judged by the next
	why := ""
	if client := w.clients[id]; client != nil && client.heard() {
		why = "although the client has got a part of an answer"
	}
	if !last.over {
		if _, closed := peek(last.conn.Conn); !closed {
			why = "while it is open"
		}
	}
	if why == "" {
		return
	}
	w.doubles++
	w.example = fmt.Sprintf("request %s: attempt %d is followed by another one %s, %s later",
		id, len(before), why, a.began.Sub(last.began).Round(time.Millisecond))
}

// watchedListener hands out connections that a witness watches.
type watchedListener struct {
	net.Listener
	witness *witness
}

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c, witness: l.witness}, nil
}

// watchedConn follows requests and answers in the bytes that pass. Requests come one after the other, with a declared length.
type watchedConn struct {
	net.Conn
	witness *witness

	request message // the engine's reading goroutines take turns

	mu      sync.Mutex
	current *attempt
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		var whole bool
		began := c.request.head == nil
		rest, whole = c.request.take(rest)
		if began && c.request.head != nil {
			a := c.witness.begin(c.request.field("x-request-id"), c)
			c.mu.Lock()
			c.current = a
			c.mu.Unlock()
		}
		if whole {
			c.request = message{}
		}
	}
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	a := c.current
	c.mu.Unlock()
	if a != nil {
		c.witness.mu.Lock()
		_, whole := a.answer.take(p)
		a.over = a.over || whole
		c.witness.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *watchedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// SetLinger is for engines that reset.
func (c *watchedConn) SetLinger(seconds int) error { return c.Conn.(*net.TCPConn).SetLinger(seconds) }

// end ends the attempt under way.
func (c *watchedConn) end() {
	c.mu.Lock()
	a := c.current
	c.mu.Unlock()
	if a == nil {
		return
	}
	c.witness.mu.Lock()
	defer c.witness.mu.Unlock()
	a.over = true
}

// message finds the end of a message of HTTP/1.1 in its bytes.
type message struct {
	head    []byte // whole, with its blank line; nil before
	partial []byte
	left    int  // bytes of a body of declared length
	chunked bool // ends with an empty chunk
	last    []byte
}

var endOfChunks = []byte("0\r\n\r\n")

// take takes the bytes that belong to the message; whole is true with its last one.
func (f *message) take(p []byte) (rest []byte, whole bool) {
	if f.head == nil {
		f.partial = append(f.partial, p...)
		i := bytes.Index(f.partial, []byte("\r\n\r\n"))
		if i < 0 {
			return nil, false
		}
		p = f.partial[i+4:]
		f.head = f.partial[:i+4]
		length, _ := strconv.ParseUint(f.field("content-length"), 10, 31)
		f.left = int(length)
		f.chunked = strings.EqualFold(f.field("transfer-encoding"), "chunked")
	}
	if f.chunked {
		f.last = append(f.last, p...)
		f.last = f.last[max(0, len(f.last)-len(endOfChunks)):]
		return nil, bytes.Equal(f.last, endOfChunks)
	}
	n := min(f.left, len(p))
	f.left -= n
	return p[n:], f.left == 0
}

// field is the value of a header line; "" if there is none.
func (f *message) field(name string) string {
	for line := range bytes.Lines(f.head) {
		n, value, found := bytes.Cut(line, []byte(":"))
		if found && strings.EqualFold(string(n), name) {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
