package engine

import "strconv"

// flushAt is how many bytes of events are gathered when nothing has to be waited for.
const flushAt = 32 << 10

// sse writes a stream. Events are gathered until the stream has to wait, so each write holds what an engine would have by then: at a
// time between tokens above zero that is one event, at zero the whole answer.
type sse struct {
	c      *conn
	events int // so far
	sent   int // bytes of events so far
}

// startStream begins a streamed answer; nothing is sent yet.
func (c *conn) startStream(status int) *sse {
	b := c.beginHead(c.out[:0], status, eventType)
	framing := "transfer-encoding: chunked\r\n"
	if c.head.oldProtocol {
		framing = "" // the end of the connection is the end of the body
	}
	c.out = c.endHead(b, framing, -1)
	return &sse{c: c}
}

// begin starts an event without a name. The caller appends the data, which is one line, and hands it to end.
func (s *sse) begin() []byte { return append(s.c.text[:0], "data: "...) }

// named starts an event with a name.
func (s *sse) named(event string) []byte {
	b := append(s.c.text[:0], "event: "...)
	b = append(b, event...)
	return append(b, "\ndata: "...)
}

func (s *sse) end(event []byte) error { return s.chunk(append(event, "\n\n"...)) }

// token waits for token k of the answer and counts it.
func (s *sse) token(k int) error {
	if err := s.ready(k); err != nil {
		return err
	}
	s.c.e.counters.tokens.Add(1)
	return nil
}

// ready sends what there is and waits until token k is made, if that is still to come.
func (s *sse) ready(k int) error {
	if s.c.ride == nil && s.c.pace.due(k) <= 0 {
		return nil // without a look at the clock
	}
	if s.c.isReady(k) {
		return s.c.ready(k)
	}
	if s.events > 0 || s.c.e.cfg.Engine == VLLM { // SGLang sends its head with the first event, vLLM before
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.c.ready(k)
}

func (s *sse) flush() error {
	if len(s.c.out) == 0 {
		return nil
	}
	err := s.c.write(s.c.out)
	s.c.out = s.c.out[:0]
	return err
}

// chunk adds one event, framed as a chunk of its own.
func (s *sse) chunk(event []byte) error {
	s.c.text = event
	if s.c.fault != nil {
		var err error
		if event, err = s.spoil(event); err != nil {
			return err
		}
	}
	s.frame(event, len(event))
	s.events++
	s.sent += len(event)
	if len(s.c.out) < flushAt {
		return nil
	}
	return s.flush()
}

// frame adds a chunk that claims to be of that size.
func (s *sse) frame(b []byte, size int) {
	if s.c.head.oldProtocol {
		s.c.out = append(s.c.out, b...)
		return
	}
	out := strconv.AppendInt(s.c.out, int64(size), 16)
	out = append(out, "\r\n"...)
	out = append(out, b...)
	if len(b) == size {
		out = append(out, "\r\n"...)
	}
	s.c.out = out
}

// finish ends the body.
func (s *sse) finish() error {
	if s.c.fault != nil {
		if err := s.stop(); err != nil {
			return err
		}
	}
	if !s.c.head.oldProtocol {
		s.c.out = append(s.c.out, "0\r\n\r\n"...)
	}
	return s.flush()
}

// stop does what the fault wants done between two events.
func (s *sse) stop() error {
	f := s.c.fault
	if n := f.HangAfterEvents; n != nil && s.events == max(*n, 0) {
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.c.pause(); err != nil {
			return err
		}
	}
	if n := f.CutAfterEvents; n != nil && s.events >= *n {
		_ = s.flush()
		return f.cut()
	}
	if n := f.CutAfterBytes; n != nil && s.sent >= *n {
		_ = s.flush()
		return f.cut()
	}
	return nil
}

// spoil returns what becomes of an event under the fault.
func (s *sse) spoil(event []byte) ([]byte, error) {
	if err := s.stop(); err != nil {
		return nil, err
	}
	f := s.c.fault
	if n := f.CutAfterBytes; n != nil && s.sent+len(event) > *n {
		s.frame(event[:*n-s.sent], len(event))
		_ = s.flush()
		return nil, f.cut()
	}
	if s.events != 1 {
		return event, nil
	}
	switch f.Malformed {
	case GarbledJSON:
		return append(event[:len(event)/2], "\n\n"...), nil
	case GarbledChunk:
		s.c.out = append(s.c.out, "zz\r\n"...)
		_ = s.flush()
		return nil, errHangUp
	}
	return event, nil
}
