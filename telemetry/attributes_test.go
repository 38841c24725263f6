package telemetry

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// read is what a collector reads of a span that a tracing has sent. Nothing in it may be unknown to the collector.
func read(t *testing.T, use func(tr *Tracing) *Span) *tracepb.Span {
	t.Helper()
	quietEnv(t)
	r := receive(t, &receiver{})
	tr := trace(t, r.address)
	s := use(tr.Tracing)
	require.True(t, s.Recording())
	s.End(time.Unix(9, 10))
	require.NoError(t, tr.Close(t.Context()))
	spans := r.spans()
	require.Len(t, spans, 1)
	require.Empty(t, spans[0].ProtoReflect().GetUnknown())
	return spans[0]
}

// fresh is a span that nothing was set of yet.
func fresh(tr *Tracing) *Span {
	s := new(Span)
	tr.StartServer(s, "GET /", time.Unix(7, 8), noHeader)
	return s
}

// telemetry.md, section 6.4; opentelemetry.proto.common.v1
func TestAttributesAsACollectorReadsThem(t *testing.T) {
	long := strings.Repeat("x", 300) // whose length is two bytes long
	tests := []struct {
		name string
		set  func(a *Attributes)
		want string // as text of the message, "" for no attribute
	}{
		{"a text", func(a *Attributes) { a.Text("k", "value") }, `attributes { key: "k" value { string_value: "value" } }`},
		{"an empty text is none", func(a *Attributes) { a.Text("k", "") }, ``},
		{"a long text", func(a *Attributes) { a.Text("k", long) }, `attributes { key: "k" value { string_value: "` + long + `" } }`},
		{"a long key", func(a *Attributes) { a.Text(long, "v") }, `attributes { key: "` + long + `" value { string_value: "v" } }`},
		{"a text beyond ASCII", func(a *Attributes) { a.Text("k", "héé\x00ü") }, `attributes { key: "k" value { string_value: "héé\000ü" } }`},
		{"a text that is not UTF-8", func(a *Attributes) { a.Text("k", "a\xffb") }, "attributes { key: \"k\" value { string_value: \"a\uFFFDb\" } }"},
		{"a number", func(a *Attributes) { a.Number("k", 42) }, `attributes { key: "k" value { int_value: 42 } }`},
		{"zero is a number", func(a *Attributes) { a.Number("k", 0) }, `attributes { key: "k" value { int_value: 0 } }`},
		{"a negative number", func(a *Attributes) { a.Number("k", -1) }, `attributes { key: "k" value { int_value: -1 } }`},
		{"the greatest number", func(a *Attributes) { a.Number("k", math.MaxInt64) }, `attributes { key: "k" value { int_value: 9223372036854775807 } }`},
		{"the least number", func(a *Attributes) { a.Number("k", math.MinInt64) }, `attributes { key: "k" value { int_value: -9223372036854775808 } }`},
		{"a fraction", func(a *Attributes) { a.Fraction("k", -0.25) }, `attributes { key: "k" value { double_value: -0.25 } }`},
		{"zero is a fraction", func(a *Attributes) { a.Fraction("k", 0) }, `attributes { key: "k" value { double_value: 0 } }`},
		{"no end of a fraction", func(a *Attributes) { a.Fraction("k", math.Inf(-1)) }, `attributes { key: "k" value { double_value: -inf } }`},
		{"true", func(a *Attributes) { a.Flag("k", true) }, `attributes { key: "k" value { bool_value: true } }`},
		{"false is a flag", func(a *Attributes) { a.Flag("k", false) }, `attributes { key: "k" value { bool_value: false } }`},
		{
			"texts", func(a *Attributes) { a.Texts("k", []string{"a", "", long}) },
			`attributes { key: "k" value { array_value { values { string_value: "a" } values { string_value: "" } values { string_value: "` + long + `" } } } }`,
		},
		{"no texts are none", func(a *Attributes) { a.Texts("k", nil) }, ``},
		{
			"texts that are not UTF-8", func(a *Attributes) { a.Texts("k", []string{"\xc3", "b"}) },
			"attributes { key: \"k\" value { array_value { values { string_value: \"\uFFFD\" } values { string_value: \"b\" } } } }",
		},
		{
			"the order is that of setting", func(a *Attributes) { a.Text("b", "1"); a.Number("a", 2) },
			`attributes { key: "b" value { string_value: "1" } } attributes { key: "a" value { int_value: 2 } }`,
		},
		{
			"those of others are added", func(a *Attributes) {
				var others Attributes
				others.Flag("forgotten", true)
				others.Clear()
				others.Flag("b", true)
				a.Text("a", "1")
				a.Add(&others)
			},
			`attributes { key: "a" value { string_value: "1" } } attributes { key: "b" value { bool_value: true } }`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want tracepb.Span
			require.NoError(t, prototext.Unmarshal([]byte(tt.want), &want))
			got := read(t, func(tr *Tracing) *Span {
				s := fresh(tr)
				tt.set(&s.Attributes)
				return s
			})
			sameMessage(t, &want, &tracepb.Span{Attributes: got.Attributes})
		})
	}
}

func sameMessage(t *testing.T, want, got proto.Message) {
	t.Helper()
	require.True(t, proto.Equal(want, got), "want %v\ngot  %v", want, got)
}

// telemetry.md, sections 6.3 and 6.4; opentelemetry.proto.trace.v1. The whole span is compared, so that nothing is in it that does
// not belong there.
func TestSpanAsACollectorReadsIt(t *testing.T) {
	id := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	parent := func(name string) string {
		return map[string]string{"Traceparent": someParent, "Tracestate": "vendor=1,other=\xff"}[name]
	}
	var server Span
	remote := func(tr *Tracing) *Span {
		tr.StartServer(&server, "POST /generate", time.Unix(7, 8), parent)
		return &server
	}
	const flags = 0x101 // recorded; where the parent is, is known: in this process
	tests := []struct {
		name string
		use  func(tr *Tracing) *Span
		want *tracepb.Span // but for ids, and what all have: start and end
	}{
		{
			"a request that begins a trace", fresh,
			&tracepb.Span{Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: flags},
		},
		{
			"a request that continues one", remote,
			&tracepb.Span{
				Name: "POST /generate", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: 0x301,
				TraceId: id(someTrace), ParentSpanId: id(someSpan), TraceState: "vendor=1,other=\uFFFD",
			},
		},
		{
			"a request to a worker", func(tr *Tracing) *Span {
				client := new(Span)
				remote(tr).StartClient(client, "chat m1", time.Unix(7, 8))
				return client
			},
			&tracepb.Span{
				Name: "chat m1", Kind: tracepb.Span_SPAN_KIND_CLIENT, Flags: flags,
				TraceId: id(someTrace), TraceState: "vendor=1,other=\uFFFD",
			},
		},
		{
			"a part of a request", func(tr *Tracing) *Span {
				part := new(Span)
				remote(tr).StartPart(part, "smg.policy", time.Unix(7, 8))
				return part
			},
			&tracepb.Span{
				Name: "smg.policy", Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: flags,
				TraceId: id(someTrace), TraceState: "vendor=1,other=\uFFFD",
			},
		},
		{
			"a name that is not UTF-8", func(tr *Tracing) *Span {
				s := new(Span)
				tr.StartServer(s, "chat \xffm", time.Unix(7, 8), noHeader)
				return s
			},
			&tracepb.Span{Name: "chat \uFFFDm", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: flags},
		},
		{
			"a failure", func(tr *Tracing) *Span { s := fresh(tr); s.Fail(); return s },
			&tracepb.Span{
				Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: flags,
				Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR},
			},
		},
		{
			"events, with attributes between them", func(tr *Tracing) *Span {
				s := fresh(tr)
				s.Event("smg.auth", time.Unix(8, 1))
				s.Flag("k", true)
				s.RetryEvent(time.Unix(8, 2), 1500*time.Millisecond, "503")
				s.RetryEvent(time.Unix(8, 3), 0, "\xff")
				return s
			},
			&tracepb.Span{
				Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: flags,
				Attributes: []*commonpb.KeyValue{{Key: "k", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}}},
				Events: []*tracepb.Span_Event{
					{Name: "smg.auth", TimeUnixNano: 8e9 + 1},
					{Name: "smg.retry", TimeUnixNano: 8e9 + 2, Attributes: retried(1500, "503")},
					{Name: "smg.retry", TimeUnixNano: 8e9 + 3, Attributes: retried(0, "\uFFFD")},
				},
			},
		},
		{
			"a part that is started again has nothing of the one before, reset or not", func(tr *Tracing) *Span {
				part := new(Span)
				remote(tr).StartPart(part, "smg.body", time.Unix(7, 7))
				part.Text("old", "x")
				part.Fail()
				server.StartPart(part, "smg.policy", time.Unix(7, 8))
				return part
			},
			&tracepb.Span{
				Name: "smg.policy", Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: flags,
				TraceId: id(someTrace), TraceState: "vendor=1,other=\uFFFD",
			},
		},
		{
			"a span that is used again has nothing of the one before", func(tr *Tracing) *Span {
				s := remote(tr)
				s.Text("old", "x")
				s.Fail()
				s.Reset()
				tr.StartServer(s, "GET /", time.Unix(7, 8), noHeader)
				return s
			},
			&tracepb.Span{Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: flags},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var own, trace, parentSpan string
			got := read(t, func(tr *Tracing) *Span {
				server = Span{}
				s := tt.use(tr)
				trace, own = s.IDs()
				if s != &server {
					_, parentSpan = server.IDs()
				}
				return s
			})
			tt.want.StartTimeUnixNano, tt.want.EndTimeUnixNano = 7e9+8, 9e9+10
			tt.want.SpanId, tt.want.TraceId = id(own), id(trace)
			if tt.want.ParentSpanId == nil && parentSpan != "" {
				tt.want.ParentSpanId = id(parentSpan)
			}
			sameMessage(t, tt.want, got)
		})
	}
}

func retried(ms int64, reason string) []*commonpb.KeyValue {
	return []*commonpb.KeyValue{
		{Key: "delay_ms", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: ms}}},
		{Key: "reason", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: reason}}},
	}
}

// The zero value is no span.
func TestNoSpan(t *testing.T) {
	var s, child Span
	s.Text("k", "v")
	s.Event("e", time.Now())
	s.Fail()
	s.StartClient(&child, "chat", time.Now())
	for _, s := range []*Span{&s, &child} {
		require.False(t, s.Recording())
		traceID, spanID := s.IDs()
		require.Empty(t, traceID+spanID)
		parent, state := s.Propagate()
		require.Empty(t, parent+state)
		s.End(time.Now())
	}
}

// A span that ends is sent once, however often it ends, and has no ids any more.
func TestSpanEndsOnce(t *testing.T) {
	got := read(t, func(tr *Tracing) *Span {
		s := fresh(tr)
		s.End(time.Unix(8, 0))
		s.End(time.Unix(8, 1))
		require.False(t, s.Recording())
		traceID, _ := s.IDs()
		require.Empty(t, traceID)
		again := *s
		again.tracing = tr // as read ends the span once more: it has to be another
		tr.StartServer(&again, "again", time.Unix(7, 8), noHeader)
		tr.queue.mu.Lock()
		defer tr.queue.mu.Unlock()
		require.Equal(t, 1, tr.queue.filling.spans)
		tr.queue.filling.wire, tr.queue.filling.spans = nil, 0
		return &again
	})
	require.Equal(t, "again", got.Name)
}

// FuzzAttributes: whatever texts a span is given, a collector can read it, and reads them. Invalid UTF-8 in one would make it refuse
// the whole batch.
func FuzzAttributes(f *testing.F) {
	f.Add("name", "state", "value", "", int64(0), 0.0)
	f.Add("\xff", "\xc3", "\xed\xa0\x80", "a\x80b", int64(-1), math.Inf(1))
	f.Fuzz(func(t *testing.T, name, state, value, other string, number int64, fraction float64) {
		s := Span{context: traceContext{trace: [16]byte{1}, span: [8]byte{2}, sampled: true, state: state}}
		s.begin(name, kindClient, time.Unix(7, 8), [8]byte{3}, true)
		s.Text("text", value)
		s.Texts("texts", []string{value, other})
		s.Number("number", number)
		s.Fraction("fraction", fraction)
		s.Event(clean(other), time.Unix(8, 1)) // the caller's duty
		s.RetryEvent(time.Unix(8, 2), time.Duration(number), value)
		var got tracepb.Span
		require.NoError(t, proto.Unmarshal(s.wire, &got))
		require.Empty(t, got.ProtoReflect().GetUnknown())
		require.Equal(t, clean(name), got.Name)
		require.Equal(t, clean(state), got.TraceState)
		require.Equal(t, clean(other), got.Events[0].Name)
		require.Equal(t, clean(value), got.Events[1].Attributes[1].Value.GetStringValue())
		attributes := got.Attributes
		if value != "" {
			require.Equal(t, clean(value), attributes[0].Value.GetStringValue())
			attributes = attributes[1:]
		}
		require.Equal(t, clean(other), attributes[0].Value.GetArrayValue().Values[1].GetStringValue())
		require.Equal(t, number, attributes[1].Value.GetIntValue())
		require.Equal(t, math.Float64bits(fraction), math.Float64bits(attributes[2].Value.GetDoubleValue()))
	})
}

// clean is s as the test expects it: each run of bytes that are no UTF-8 is one U+FFFD.
func clean(s string) string {
	var b strings.Builder
	bad := false
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		wrong := r == utf8.RuneError && n == 1
		if !wrong || !bad {
			b.WriteRune(r)
		}
		bad, s = wrong, s[n:]
	}
	return b.String()
}
