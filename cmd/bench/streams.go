package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// eventsPerSecond is the pace of each stream.
	eventsPerSecond = 100
	// opening is how long the engine pauses after the first event of a stream. Streams are opened all at once, and a pause as
	// long as that may take keeps those that are open from holding up the others with their events.
	opening = 2 * time.Second
)

// streams holds many event streams open at once and measures while all of them run.
type streams struct {
	addr             string
	count            int
	warmup, duration time.Duration

	phase phase
	begun atomic.Int32 // streams that have had an event
}

// run opens the streams and measures when all have been opened and have run for the warm-up. Then it reads them to their
// end: each must have every event and the [DONE].
func (s *streams) run(ctx context.Context, before, after func()) (measured, error) {
	// A stream that began at once is still to run in the last moment of the measured part.
	events := int((opening+s.warmup+s.duration).Seconds()*eventsPerSecond) + 2
	from := time.Now().Add(2*opening + s.warmup)
	deadline := from.Add(20*(opening+s.duration) + grace) // a machine that cannot keep the pace may fall far behind
	parts := make([]measured, s.count)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { parts[i] = s.client(ctx, i, events, deadline) })
	}
	elapsed, begun := time.Duration(0), s.count
	if sleepUntil(ctx, from) {
		begun = int(s.begun.Load())
		elapsed = s.phase.measure(ctx, s.duration, before, after)
	}
	wg.Wait()
	m := merge(parts)
	m.elapsed = elapsed
	if begun < s.count {
		m.fail(fmt.Errorf("only %d of %d streams had begun after %s", begun, s.count, 2*opening+s.warmup))
	}
	return m, ctx.Err()
}

// client is one stream.
func (s *streams) client(ctx context.Context, id, events int, deadline time.Time) measured {
	m := measured{took: make([]time.Duration, 0, events)}
	begun := false
	err := readStream(ctx, s.addr, id, events, deadline,
		func(delay time.Duration) {
			if !begun {
				begun = true
				s.begun.Add(1)
			}
			if s.phase.measuring.Load() {
				m.count++
				m.took = append(m.took, delay)
			}
		})
	if err != nil && ctx.Err() == nil {
		m.fail(err)
	}
	return m
}

// readStream asks for a stream of so many events and reads it to its end; event is told the age of each.
func readStream(ctx context.Context, addr string, id, events int, deadline time.Time, event func(time.Duration)) error {
	conn, err := dial(ctx, addr, deadline)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	request := chatRequest(addr, id, 1<<10, fmt.Sprintf(`,"stream":true,"max_tokens":%d`, events))
	if _, err := conn.Write([]byte(request)); err != nil {
		return err
	}
	scan := eventScanner{event: event}
	res, err := newResponseReader(conn).next(scan.write)
	switch {
	case err != nil:
		return fmt.Errorf("after %d of %d events: %w", scan.events, events, unexpected(err))
	case res.status != http.StatusOK:
		return fmt.Errorf("status %d", res.status)
	case scan.events != events || !scan.done:
		return fmt.Errorf("the stream ended after %d of %d events, [DONE] seen: %t", scan.events, events, scan.done)
	}
	return nil
}

// stampPrefix stands before the 19 digits of an event that say when the engine wrote it, in nanoseconds of Unix time.
const stampPrefix, stampDigits = `"id":"chatcmpl-`, 19

// eventScanner finds the engine's events in the parts of a body. Whatever else a peer puts between them is passed over.
type eventScanner struct {
	events  int                 // those with a stamp
	done    bool                // [DONE] has been seen
	event   func(time.Duration) // told the age of each event
	partial []byte              // the beginning of an event whose end has not come yet
}

func (s *eventScanner) write(part []byte) {
	now := time.Now().UnixNano()
	if len(s.partial) > 0 {
		s.partial = append(s.partial, part...)
		part = s.partial
	}
	for {
		text, rest, found := bytes.Cut(part, []byte("\n\n"))
		if !found {
			s.partial = append(s.partial[:0], part...)
			return
		}
		s.scan(text, now)
		part = rest
	}
}

func (s *eventScanner) scan(text []byte, now int64) {
	if bytes.Equal(text, []byte("data: [DONE]")) {
		s.done = true
		return
	}
	_, digits, found := bytes.Cut(text, []byte(stampPrefix))
	if !found || len(digits) < stampDigits {
		return
	}
	stamp, err := strconv.ParseInt(string(digits[:stampDigits]), 10, 64)
	if err != nil {
		return
	}
	s.events++
	s.event(time.Duration(now - stamp))
}
