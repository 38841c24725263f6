package forward

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dechunk decodes raw as it comes in pieces of at most n bytes: the body, the decoder's end, and what stands behind it.
func dechunk(raw string, n int) (body string, d chunks, rest int, err error) {
	var buf []byte
	for {
		skip, data, err := d.step(buf)
		buf = buf[skip:]
		body += string(buf[:data])
		buf = buf[data:]
		switch {
		case err != nil:
			return body, d, 0, err
		case d.state == chunksDone:
			return body, d, len(buf) + len(raw), nil
		case data > 0:
		case raw == "":
			return body, d, 0, io.ErrUnexpectedEOF
		default:
			n := min(n, len(raw))
			buf = append(buf, raw[:n]...)
			raw = raw[n:]
		}
	}
}

// http-dataplane.md, section 9.3; case C20
func TestChunks(t *testing.T) {
	long := strings.Repeat("x", maxChunkLine)
	tests := []struct {
		name, raw, body string
		err             error
	}{
		{"chunks", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!", nil},
		{"no chunk", "0\r\n\r\n", "", nil},
		{"hex in both cases, zeros in front", "00A\r\n0123456789\r\n0a\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789", nil},
		{"an extension is dropped", "5;a=b;c=\"d\"\r\nhello\r\n0;z\r\n\r\n", "hello", nil},
		{"spaces behind the size", "5 \t\r\nhello\r\n0 ;x\r\n\r\n", "hello", nil},
		{"trailers", "1\r\nx\r\n0\r\nX-T: 1\r\nY: 2\r\n\r\n", "x", nil},
		{"a body that looks like framing", "7\r\n0\r\n\r\n5\r\r\n0\r\n\r\n", "0\r\n\r\n5\r", nil},
		{"no size", "\r\n", "", errChunkSize},
		{"a sign", "+5\r\nhello\r\n", "", errChunkSize},
		{"a prefix", "0x5\r\nhello\r\n", "", errChunkSize},
		{"a space before the size", " 5\r\nhello\r\n", "", errChunkSize},
		{"a word behind the size", "5 a\r\nhello\r\n", "", errChunkSize},
		{"a size that does not fit", "1000000000000000\r\n", "", errChunkSize},
		{"a size that ends with LF alone", "5\nhello\r\n0\r\n\r\n", "", errChunkSize},
		{"an extension that ends with LF alone", "5;a\nhello\r\n0\r\n\r\n", "", errChunkSize},
		{"an extension with a CR", "5;a\rb\r\nhello\r\n0\r\n\r\n", "", errChunkSize},
		{"a chunk that is longer than its size", "5\r\nhello!\r\n0\r\n\r\n", "hello", errChunkEnd},
		{"a chunk that ends with LF alone", "5\r\nhello\n0\r\n\r\n", "hello", errChunkEnd},
		{"a line without end", "5;" + long, "", errChunkLine},
		{"a line that is too long", "5;" + long + "\r\n", "", errChunkLine},
		{"trailers without end", "0\r\nX: " + strings.Repeat("x", maxTrailers), "", errTrailerSize},
		{"a trailer that ends with LF alone", "0\r\nX: y\nZ: z\r\n\r\n", "", errField},
		{"a cut chunk", "5\r\nhel", "hel", io.ErrUnexpectedEOF},
		{"a cut end", "5\r\nhello\r\n0\r\n", "hello", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 1 << 20} {
				body, _, _, err := dechunk(tt.raw, n)
				require.Equal(t, tt.err, err, "in pieces of %d", n)
				require.Equal(t, tt.body, body, "in pieces of %d", n)
			}
		})
	}
}

func TestTrailersCannotFrameTheMessage(t *testing.T) {
	fields, err := parseTrailers(nil, "X-T: 1\r\nContent-Length: 7\r\ntransfer-encoding: chunked\r\nY: 2\r\n\r\n")
	require.NoError(t, err)
	require.Len(t, fields, 2)
	require.Equal(t, "X-T", fields[0].Name)
	require.Equal(t, "Y", fields[1].Name)
	_, err = parseTrailers(nil, "X-T : 1\r\n\r\n")
	require.Equal(t, errField, err)
}

// FuzzChunks checks that a body is decoded alike however it arrives, and that it ends in the same place.
func FuzzChunks(f *testing.F) {
	f.Add("5\r\nhello\r\n0\r\n\r\nrest", uint8(1))
	f.Add("5;a=b\r\nhello\r\n00\r\nX: y\r\n\r\n", uint8(3))
	f.Add("ffffffffffffffff\r\n", uint8(2))
	f.Add("5\nhello\n0\n\n", uint8(1))
	f.Fuzz(func(t *testing.T, raw string, n uint8) {
		whole, d1, rest1, err1 := dechunk(raw, len(raw)+1)
		pieces, d2, rest2, err2 := dechunk(raw, int(n)+1)
		if (err1 == nil) != (err2 == nil) || whole != pieces || rest1 != rest2 || d1.trailers != d2.trailers {
			t.Fatalf("whole: %q %v %d; pieces: %q %v %d", whole, err1, rest1, pieces, err2, rest2)
		}
	})
}
