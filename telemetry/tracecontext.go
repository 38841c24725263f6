package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// traceContext is a span as other processes know it: W3C Trace Context, level 1.
type traceContext struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
	state   string // tracestate, passed on as it came
}

// parseTraceContext reads the headers traceparent and tracestate; ok is false if there is no valid traceparent.
func parseTraceContext(parent, state string) (c traceContext, ok bool) {
	const length = len("00-00000000000000000000000000000000-0000000000000000-00")
	if len(parent) < length || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' {
		return c, false
	}
	version := parent[:2]
	if later := len(parent) > length; version == "ff" || later && (version == "00" || parent[length] != '-') {
		return c, false
	}
	var flags, number [1]byte
	for _, part := range []struct {
		into []byte
		text string
	}{{number[:], version}, {c.trace[:], parent[3:35]}, {c.span[:], parent[36:52]}, {flags[:], parent[53:55]}} {
		if _, err := hex.Decode(part.into, []byte(part.text)); err != nil || strings.ToLower(part.text) != part.text {
			return c, false
		}
	}
	if c.trace == [16]byte{} || c.span == [8]byte{} {
		return c, false
	}
	c.sampled, c.state = flags[0]&1 != 0, state
	return c, true
}

// traceparent is the header value that makes a receiver's span a child of this one.
func (c *traceContext) traceparent() string {
	b := append(make([]byte, 0, 55), "00-"...)
	b = hex.AppendEncode(b, c.trace[:])
	b = hex.AppendEncode(append(b, '-'), c.span[:])
	if c.sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// child is a new span of the same trace.
func (c *traceContext) child() traceContext {
	next := *c
	next.newSpan()
	return next
}

func (c *traceContext) newTrace() {
	for c.trace == [16]byte{} {
		binary.BigEndian.PutUint64(c.trace[:8], rand.Uint64())
		binary.BigEndian.PutUint64(c.trace[8:], rand.Uint64())
	}
	c.newSpan()
}

func (c *traceContext) newSpan() {
	c.span = [8]byte{}
	for c.span == [8]byte{} {
		binary.BigEndian.PutUint64(c.span[:], rand.Uint64())
	}
}
