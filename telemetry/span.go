package telemetry

import (
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Span is one span of a request. The zero value is no span: what is done with it has no effect on anything. A Span is used by one
// goroutine at a time, and again after Reset. What it records goes to the collector when it ends.
type Span struct {
	Attributes // set before the end, which sends them
	tracing    *Tracing
	context    traceContext
	failed     bool
}

// Kinds of spans.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// The flags of a span tell whether it is sampled, and whether its parent is another process's.
const (
	flagSampled      = 0x1
	flagParentKnown  = 0x100
	flagParentRemote = 0x200
)

// StartServer starts the span of a request that a client sent. header looks a request header up by its canonical name: the span
// continues the trace that traceparent names, if it names one, and is recorded if that is.
func (t *Tracing) StartServer(s *Span, name string, began time.Time, header func(name string) string) {
	s.tracing = t
	parent, remote := parseTraceContext(header("Traceparent"), header("Tracestate"))
	if remote {
		s.context = parent.child()
		s.context.sampled = t.sampler.ofParent(&parent)
	} else {
		s.context = traceContext{}
		s.context.newTrace()
		s.context.sampled = t.sampler.ofRoot(&s.context)
	}
	s.begin(name, kindServer, began, parent.span, remote)
}

// StartClient starts the span of a request to a worker, a part of s.
func (s *Span) StartClient(child *Span, name string, began time.Time) {
	child.tracing, child.context = s.tracing, s.context.child()
	child.begin(name, kindClient, began, s.context.span, false)
}

// StartPart starts the span of a part of the request that is the gateway's own.
func (s *Span) StartPart(part *Span, name string, began time.Time) {
	part.tracing, part.context = s.tracing, s.context.child()
	part.begin(name, kindInternal, began, s.context.span, false)
}

func (s *Span) begin(name string, kind uint64, began time.Time, parent [8]byte, remote bool) {
	s.failed = false
	if !s.context.sampled {
		return
	}
	b := appendBytes(s.wire[:0], spanTraceID, s.context.trace[:])
	b = appendBytes(b, spanID, s.context.span[:])
	if s.context.state != "" {
		b = appendString(b, spanTraceState, validText(s.context.state))
	}
	flags := uint32(flagSampled | flagParentKnown)
	if parent != [8]byte{} {
		b = appendBytes(b, spanParentID, parent[:])
	}
	if remote {
		flags |= flagParentRemote
	}
	b = appendString(b, spanName, validText(name))
	b = appendVarint(b, spanKind, kind)
	b = appendFixed64(b, spanStart, uint64(began.UnixNano()))
	s.wire = binary.LittleEndian.AppendUint32(appendTag(b, spanFlags, protowire.Fixed32Type), flags)
}

// Recording tells whether anything is kept of the span. What is costly to find out need not be found out otherwise.
func (s *Span) Recording() bool { return s.tracing != nil && s.context.sampled }

// Event notes a moment of the span. The name is UTF-8.
func (s *Span) Event(name string, at time.Time) {
	s.event(name, at, 0)
}

// Moment is an event whose name is known before: a stage's, of which every request has many.
type Moment struct {
	wire  []byte // the event, at time 0
	clock int    // where the time is in it
}

// NewMoment makes a moment. The name is UTF-8.
func NewMoment(name string) Moment {
	var s Span
	s.Event(name, time.Unix(0, 0))
	behind := protowire.SizeTag(eventName) + protowire.SizeBytes(len(name))
	return Moment{s.wire, len(s.wire) - behind - protowire.SizeFixed64()}
}

// Note notes a moment of the span, as Event does.
func (s *Span) Note(m *Moment, at time.Time) {
	start := len(s.wire)
	s.wire = append(s.wire, m.wire...)
	binary.LittleEndian.PutUint64(s.wire[start+m.clock:], uint64(at.UnixNano()))
}

// RetryEvent notes that a span is another attempt: how long after the end of the last one, and why.
func (s *Span) RetryEvent(at time.Time, delay time.Duration, reason string) {
	reason = validText(reason)
	var a Attributes
	a.wire = appendAttribute(nil, eventAttributes, "delay_ms", protowire.SizeTag(anyInt)+protowire.SizeVarint(uint64(delay.Milliseconds())))
	a.wire = appendVarint(a.wire, anyInt, uint64(delay.Milliseconds()))
	a.wire = appendAttribute(a.wire, eventAttributes, "reason", protowire.SizeTag(anyString)+protowire.SizeBytes(len(reason)))
	a.wire = appendString(a.wire, anyString, reason)
	s.event("smg.retry", at, len(a.wire))
	s.wire = append(s.wire, a.wire...)
}

// event appends an event up to its attributes, which are to follow.
func (s *Span) event(name string, at time.Time, attributes int) {
	size := protowire.SizeTag(eventTime) + protowire.SizeFixed64() + protowire.SizeTag(eventName) + protowire.SizeBytes(len(name)) + attributes
	b := appendLength(s.wire, spanEvents, size)
	b = appendFixed64(b, eventTime, uint64(at.UnixNano()))
	s.wire = appendString(b, eventName, name)
}

// Fail marks the span as failed.
func (s *Span) Fail() { s.failed = true }

// End ends the span; a second time it does nothing.
func (s *Span) End(at time.Time) {
	if s.Recording() {
		s.wire = appendFixed64(s.wire, spanEnd, uint64(at.UnixNano()))
		if s.failed {
			s.wire = appendLength(s.wire, spanStatus, protowire.SizeTag(statusCode)+protowire.SizeVarint(statusError))
			s.wire = appendVarint(s.wire, statusCode, statusError)
		}
		s.tracing.queue.add(s.wire)
	}
	s.tracing = nil
}

// IDs are the ids of trace and span, in hexadecimal; "" if there is no span.
func (s *Span) IDs() (traceID, spanID string) {
	if s.tracing == nil {
		return "", ""
	}
	parent := s.context.traceparent()
	return parent[3:35], parent[36:52]
}

// Propagate gives the values of the headers by which the receiver of a request continues the trace; tracestate is "" for none.
func (s *Span) Propagate() (traceparent, tracestate string) {
	if s.tracing == nil {
		return "", ""
	}
	return s.context.traceparent(), s.context.state
}

// keptWire is how many bytes of memory a span keeps for the next request.
const keptWire = 16 << 10

// Reset makes the span ready for another request.
func (s *Span) Reset() {
	wire := s.wire[:0]
	if cap(wire) > keptWire {
		wire = nil
	}
	*s = Span{Attributes: Attributes{wire}}
}
