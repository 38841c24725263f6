package telemetry

import (
	"encoding/binary"
	"math"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Attributes are keys and values of a span, in the wire format of OTLP from the start: a request sets some forty of them, and
// objects for each would cost more than the request (docs/decisions/006). The zero value is empty. Keys are UTF-8, as constants are;
// values that are not are made so.
type Attributes struct{ wire []byte }

// Field numbers of the messages opentelemetry.proto.common.v1 KeyValue, AnyValue and ArrayValue, and of Span.
const (
	keyValueKey, keyValueValue                   = 1, 2
	anyString, anyBool, anyInt, anyDouble        = 1, 2, 3, 4
	anyArray, arrayValues                        = 5, 1
	spanAttributes, spanEvents                   = 9, 11
	eventTime, eventName, eventAttributes        = 1, 2, 3
	spanTraceID, spanID, spanTraceState          = 1, 2, 3
	spanParentID, spanName, spanKind             = 4, 5, 6
	spanStart, spanEnd, spanStatus               = 7, 8, 15
	spanFlags                                    = 16
	statusCode                                   = 3
	scopeSpansSpans                              = 2
	statusError                           uint64 = 2
)

// Text sets an attribute; an empty value is none.
func (a *Attributes) Text(key, value string) {
	if value = validText(value); value != "" {
		a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyString)+protowire.SizeBytes(len(value)))
		a.wire = appendString(a.wire, anyString, value)
	}
}

// Joined sets an attribute to the parts of a text, put together.
func (a *Attributes) Joined(key string, parts ...string) {
	size := 0
	for _, p := range parts {
		if !utf8.ValidString(p) {
			a.Text(key, strings.Join(parts, ""))
			return
		}
		size += len(p)
	}
	if size == 0 {
		return
	}
	a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyString)+protowire.SizeBytes(size))
	a.wire = appendLength(a.wire, anyString, size)
	for _, p := range parts {
		a.wire = append(a.wire, p...)
	}
}

// Number sets an attribute.
func (a *Attributes) Number(key string, value int64) {
	a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyInt)+protowire.SizeVarint(uint64(value)))
	a.wire = appendVarint(a.wire, anyInt, uint64(value))
}

// Fraction sets an attribute.
func (a *Attributes) Fraction(key string, value float64) {
	a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyDouble)+protowire.SizeFixed64())
	a.wire = appendFixed64(a.wire, anyDouble, math.Float64bits(value))
}

// Flag sets an attribute.
func (a *Attributes) Flag(key string, value bool) {
	a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyBool)+1)
	a.wire = appendVarint(a.wire, anyBool, protowire.EncodeBool(value))
}

// Texts sets an attribute; no values are none.
func (a *Attributes) Texts(key string, values []string) {
	if len(values) == 0 {
		return
	}
	size := 0
	for _, v := range values {
		v = validText(v)
		size += protowire.SizeTag(arrayValues) + protowire.SizeBytes(protowire.SizeTag(anyString)+protowire.SizeBytes(len(v)))
	}
	a.wire = appendAttribute(a.wire, spanAttributes, key, protowire.SizeTag(anyArray)+protowire.SizeBytes(size))
	a.wire = appendLength(a.wire, anyArray, size)
	for _, v := range values {
		v = validText(v)
		a.wire = appendLength(a.wire, arrayValues, protowire.SizeTag(anyString)+protowire.SizeBytes(len(v)))
		a.wire = appendString(a.wire, anyString, v)
	}
}

// Address sets server.address and, if there is one, server.port.
func (a *Attributes) Address(hostPort string) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		a.Text("server.address", hostPort)
		return
	}
	a.Text("server.address", host)
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		a.Number("server.port", int64(n))
	}
}

// Add sets what was set in others as well.
func (a *Attributes) Add(others *Attributes) { a.wire = append(a.wire, others.wire...) }

// Clear forgets all of them, keeping the memory.
func (a *Attributes) Clear() { a.wire = a.wire[:0] }

// validText is s with U+FFFD for what is not UTF-8: one bad text, and a collector refuses the whole batch.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// appendAttribute appends a KeyValue up to its value, an AnyValue of size bytes, which is to follow.
func appendAttribute(b []byte, field protowire.Number, key string, size int) []byte {
	inner := protowire.SizeTag(keyValueKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(keyValueValue) + protowire.SizeBytes(size)
	b = appendLength(b, field, inner)
	b = appendString(b, keyValueKey, key)
	return appendLength(b, keyValueValue, size)
}

func appendLength(b []byte, field protowire.Number, size int) []byte {
	return appendNumber(appendTag(b, field, protowire.BytesType), uint64(size))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendLength(b, field, len(s)), s...)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return append(appendLength(b, field, len(v)), v...)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return appendNumber(appendTag(b, field, protowire.VarintType), v)
}

func appendFixed64(b []byte, field protowire.Number, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(b, field, protowire.Fixed64Type), v)
}

func appendTag(b []byte, field protowire.Number, t protowire.Type) []byte {
	return appendNumber(b, protowire.EncodeTag(field, t))
}

// appendNumber appends a varint. Nearly all of a span's are of one byte: tags, and lengths of keys and short values.
func appendNumber(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return protowire.AppendVarint(b, v)
}
