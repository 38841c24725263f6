package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is clients that send chat requests, every other one a stream, and judge the answers.
type crowd struct {
	addr    string
	name    string
	fault   fault
	clients int
	vanish  float64
	witness *witness

	mu  sync.Mutex
	row faultRow
}

func (s *scene) crowd(f fault, clients int, vanish float64) *crowd {
	return &crowd{addr: s.gateway.addr, name: strings.ReplaceAll(f.name, " ", "-"), fault: f, clients: clients, vanish: vanish, witness: s.witness}
}

// run sends until a time, and returns when every request is over.
func (c *crowd) run(ctx context.Context, until time.Time) {
	var all sync.WaitGroup
	for i := range c.clients {
		all.Go(func() { c.client(ctx, i, until) })
	}
	all.Wait()
}

func (c *crowd) tally() *faultRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	row := c.row
	row.Fault = c.fault.name
	return &row
}

// client sends one request after the other, on one connection as long as that lasts.
func (c *crowd) client(ctx context.Context, number int, until time.Time) {
	var conn *clientConn
	defer func() { conn.close() }()
	for n := 0; ctx.Err() == nil && time.Now().Before(until); n++ {
		if conn == nil {
			var err error
			if conn, err = c.dial(ctx); err != nil {
				if c.fault.ends || ctx.Err() != nil {
					return // nobody listens any more, or nobody wants to know
				}
				c.note(outcome{lost: fmt.Sprintf("cannot connect: %v", err)})
				pause(ctx, 10*time.Millisecond)
				continue
			}
		}
		id := fmt.Sprintf("%s-%d-%d-%d", c.name, number, n, until.UnixNano())
		over := c.witness.sends(id, conn)
		v := conn.ask(id, n%2 == 0, rand.Float64() < c.vanish)
		over()
		if v.stale && c.fault.ends {
			conn.close() // smg closed the idle connection, as it should; a well-behaved client connects again
			conn = nil
			continue
		}
		c.note(v)
		if !v.reusable {
			conn.close()
			conn = nil
		}
		if v.refused { // a client that is refused does not hurry
			pause(ctx, 5*time.Millisecond)
		}
	}
}

func (c *crowd) dial(ctx context.Context) (*clientConn, error) {
	nc, err := dial(ctx, c.addr, time.Now().Add(time.Minute))
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: nc, in: bufio.NewReader(nc)}, nil
}

// note counts an end.
func (c *crowd) note(v outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.row.Sent++
	lost := v.lost
	switch {
	case v.vanished:
		c.row.Vanished++
	case v.completed:
		c.row.Completed++
	case v.refused && c.fault.errors, v.broken && c.fault.breaks:
		c.row.Refused++
	case v.refused, v.broken:
		lost = "an end that this fault is no reason for: " + v.says
	}
	if lost != "" {
		c.row.Lost++
		c.row.Example = lost
	}
}

// outcome is how a request ended. One of the first five holds.
type outcome struct {
	completed bool
	refused   bool   // with a documented error, before anything of an answer had come
	broken    bool   // visibly, after a part of a stream
	vanished  bool   // the client has left
	lost      string // any other way

	says     string // of refused and broken
	reusable bool   // the connection may be used again
	stale    bool   // the connection was closed before a byte of an answer had come
}

// clientConn is a client's connection.
type clientConn struct {
	net.Conn
	in       *bufio.Reader
	used     bool
	answered atomic.Bool // a byte of the answer has been read
}

// heard tells whether anything of an answer has come.
func (c *clientConn) heard() bool {
	waiting, _ := peek(c.Conn)
	return waiting || c.answered.Load()
}

func (c *clientConn) close() {
	if c != nil {
		_ = c.Close()
	}
}

// ask sends a request and judges the answer. A client that vanishes leaves at a random moment.
func (c *clientConn) ask(id string, streamed, vanish bool) outcome {
	body := fmt.Sprintf(`{"model":"m1","stream":%t,"messages":[{"role":"user","content":"%s"}]}`, streamed, id)
	text := request("smg", id, body)
	if vanish {
		_, _ = io.WriteString(c, text[:1+rand.IntN(len(text))])
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(20000)) * time.Microsecond))
		_, _ = io.CopyN(io.Discard, c.in, rand.Int64N(1500))
		return outcome{vanished: true}
	}
	c.answered.Store(false)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := io.WriteString(c, text)
	if err == nil {
		_, err = c.in.Peek(1)
	}
	if err != nil {
		return outcome{lost: fmt.Sprintf("no answer: %v", err), stale: c.used && !isTimeout(err)}
	}
	c.used = true
	c.answered.Store(true)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return outcome{lost: fmt.Sprintf("no answer: %v", err)}
	}
	answer, err := io.ReadAll(resp.Body)
	v := judge(resp, answer, err, streamed)
	v.reusable = err == nil && !resp.Close
	return v
}

// request renders a chat request with an id.
func request(host, id, body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		host, id, len(body), body)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// judge says what an answer is worth. cut is why its body ended, if not well.
func judge(resp *http.Response, text []byte, cut error, streamed bool) outcome {
	code := resp.Header.Get("X-SMG-Error-Code")
	says := fmt.Sprintf("status %d, %s, %d bytes", resp.StatusCode, code, len(text))
	switch {
	case resp.StatusCode != http.StatusOK:
		if cut == nil && json.Valid(text) && (documented[code] || code == "" && resp.Header.Get("X-SMG-Routed-Worker-Id") != "") {
			return outcome{refused: true, says: says} // the gateway's own error, or the worker's as it was
		}
	case streamed && cut != nil:
		return outcome{broken: true, says: says}
	case streamed && bytes.HasSuffix(text, []byte("data: [DONE]\n\n")), !streamed && cut == nil && json.Valid(text):
		return outcome{completed: true}
	}
	return outcome{lost: fmt.Sprintf("%s (%v): %.200q", says, cut, text)}
}

// documented are the codes of errors that a gateway may give under these faults; see docs/errors.md.
var documented = map[string]bool{
	"admission_queue_full": true, "admission_queue_timeout": true, "no_available_workers": true,
	"call_upstream_connection_failed": true, "call_upstream_request_error": true, "call_upstream_timeout": true, "read_response_body_failed": true,
}
