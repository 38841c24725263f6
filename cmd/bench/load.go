package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// grace is how long an answer may be overdue when a measurement ends, before it counts as failed.
const grace = 10 * time.Second

// load is a closed loop of requests: each connection sends its next one when it has read the answer.
type load struct {
	addr             string
	connections      int
	bytes            int // of the request body
	answer           int // bytes of the body that a right answer has
	warmup, duration time.Duration
}

// measured is what a load or streams saw between warm-up and end.
type measured struct {
	count   int           // requests or events
	elapsed time.Duration // of the measured part
	took    []time.Duration
	failed  int   // in the whole run, warm-up included
	failure error // the first one
}

// phase of a load or of streams. It is set by whoever reads the peer's CPU time: were each client to go by the clock instead, the
// two would not be about the same time on a machine that is too busy to wake everybody when it should.
type phase struct{ measuring, over atomic.Bool }

// measure calls before and after around the measured part, and returns how long that was.
func (p *phase) measure(ctx context.Context, d time.Duration, before, after func()) time.Duration {
	before()
	start := time.Now()
	p.measuring.Store(true)
	sleepUntil(ctx, start.Add(d))
	p.measuring.Store(false)
	elapsed := time.Since(start)
	after()
	return elapsed
}

// run runs the load; before and after are called at the two ends of the measured part.
func (l load) run(ctx context.Context, before, after func()) (measured, error) {
	var p phase
	deadline := time.Now().Add(l.warmup + l.duration + grace)
	parts := make([]measured, l.connections)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { parts[i] = l.client(ctx, i, deadline, &p) })
	}
	var elapsed time.Duration
	if sleepUntil(ctx, time.Now().Add(l.warmup)) {
		elapsed = p.measure(ctx, l.duration, before, after)
	}
	p.over.Store(true)
	wg.Wait()
	m := merge(parts)
	m.elapsed = elapsed
	return m, ctx.Err()
}

// client is one connection's loop. A connection that breaks is made anew.
func (l load) client(ctx context.Context, id int, deadline time.Time, p *phase) measured {
	request := []byte(chatRequest(l.addr, id, l.bytes, ""))
	m := measured{took: make([]time.Duration, 0, 1<<12)}
	for ctx.Err() == nil && !p.over.Load() {
		if err := l.connection(ctx, request, deadline, p, &m); err != nil && ctx.Err() == nil {
			m.fail(err)
			sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) // a peer that is down must not be hammered
		}
	}
	return m
}

func (l load) connection(ctx context.Context, request []byte, deadline time.Time, p *phase, m *measured) error {
	conn, err := dial(ctx, l.addr, deadline)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answers := newResponseReader(conn)
	start := time.Now()
	for !p.over.Load() {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		res, err := answers.next(nil)
		if err != nil {
			return unexpected(err)
		}
		end := time.Now()
		if res.status != http.StatusOK || res.bytes != int64(l.answer) {
			m.fail(fmt.Errorf("status %d with %d bytes, expected 200 with %d", res.status, res.bytes, l.answer))
		} else if p.measuring.Load() {
			m.count++
			m.took = append(m.took, end.Sub(start))
		}
		if res.closes {
			return nil
		}
		start = end
	}
	return nil
}

func (m *measured) fail(err error) {
	m.failed++
	if m.failure == nil {
		m.failure = err
	}
}

// merge adds up what the connections saw; the times are sorted.
func merge(parts []measured) measured {
	var sum measured
	for _, p := range parts {
		sum.count += p.count
		sum.failed += p.failed
		sum.took = append(sum.took, p.took...)
		if sum.failure == nil {
			sum.failure = p.failure
		}
	}
	slices.Sort(sum.took)
	return sum
}

func dial(ctx context.Context, addr string, deadline time.Time) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(deadline)
}

// chatRequest renders a chat request whose body has the given number of bytes, or as few as it takes. The text is that of the client
// with this id alone, so that no two of them look like one conversation. extra is JSON to follow the messages, such as `,"n":1`.
func chatRequest(addr string, id, bytes int, extra string) string {
	const head, sentence = `{"model":"m","messages":[{"role":"user","content":"`, "The quick brown fox jumps over the lazy dog. "
	tail := `"}]` + extra + `}`
	text := fmt.Sprintf("Client %d. ", id)
	if missing := bytes - len(head) - len(text) - len(tail); missing > 0 {
		text += strings.Repeat(sentence, missing/len(sentence)+1)[:missing]
	}
	body := head + text + tail
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: smg-bench\r\nAccept: */*\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
}

// sleepUntil returns true at t, or false as soon as the context is done.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
