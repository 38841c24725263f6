package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// run runs the load; before and after are called at the two ends of the measured part.
func (l load) run(ctx context.Context, before, after func()) (measured, error) {
	now := time.Now()
	from := now.Add(l.warmup)
	to := from.Add(l.duration)
	parts := make([]measured, l.connections)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { parts[i] = l.client(ctx, i, from, to) })
	}
	if sleepUntil(ctx, from) {
		before()
		sleepUntil(ctx, to)
		after()
	}
	wg.Wait()
	m := merge(parts)
	m.elapsed = l.duration
	return m, ctx.Err()
}

// client is one connection's loop. A connection that breaks is made anew.
func (l load) client(ctx context.Context, id int, from, to time.Time) measured {
	request := []byte(chatRequest(l.addr, id, l.bytes, ""))
	m := measured{took: make([]time.Duration, 0, 1<<12)}
	for ctx.Err() == nil && time.Now().Before(to) {
		if err := l.connection(ctx, request, from, to, &m); err != nil && ctx.Err() == nil {
			m.fail(err)
			sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) // a peer that is down must not be hammered
		}
	}
	return m
}

func (l load) connection(ctx context.Context, request []byte, from, to time.Time, m *measured) error {
	conn, err := dial(ctx, l.addr, to.Add(grace))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answers := newResponseReader(conn)
	start := time.Now()
	for start.Before(to) {
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
		} else if !start.Before(from) && !end.After(to) {
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
