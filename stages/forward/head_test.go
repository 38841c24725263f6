package forward

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 9; cases C20, C21
func TestHeadIsReadInOneWayOnly(t *testing.T) {
	long := strings.Repeat("0", 19)
	tests := []struct {
		name, raw string
		err       error
		length    int64
	}{
		{"a plain head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\n", nil, 5},
		{"a head without reason", "HTTP/1.1 200\r\n\r\n", nil, -1},
		{"a head with an empty reason", "HTTP/1.1 200 \r\n\r\n", nil, -1},
		{"lines that end with LF alone", "HTTP/1.1 200 OK\nContent-Length: 5\n\n", nil, 5},
		{"both kinds of line end", "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 5\n\r\n", nil, 5},
		{"an empty value", "HTTP/1.1 200 OK\r\nX-A:\r\n\r\n", nil, -1},
		{"a tab and Latin-1 in a value", "HTTP/1.1 200 OK\r\nX-A: a long v\tlue \xe4\r\n\r\n", nil, -1},
		{"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n", nil, 5},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\n", errLengths, 0},
		{"a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", errLength, 0},
		{"a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", errLength, 0},
		{"no digits", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", errLength, 0},
		{"a length that does not fit", "HTTP/1.1 200 OK\r\nContent-Length: " + long + "\r\n\r\n", errLength, 0},
		{"a length and a coding", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", errBothLengths, 0},
		{"a coding other than chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errCoding, 0},
		{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding, 0},
		{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", errCodingInOld, 0},
		{"a folded field", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n", errFolded, 0},
		{"a folded first field", "HTTP/1.1 200 OK\r\n X-A: b\r\n\r\n", errFolded, 0},
		{"a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", errField, 0},
		{"no colon", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", errField, 0},
		{"no name", "HTTP/1.1 200 OK\r\n: 5\r\n\r\n", errField, 0},
		{"a NUL", "HTTP/1.1 200 OK\r\nX-A: b\x00c\r\n\r\n", errField, 0},
		{"a NUL far behind", "HTTP/1.1 200 OK\r\nX-A: 01234567890123\x00\r\n\r\n", errField, 0},
		{"a DEL", "HTTP/1.1 200 OK\r\nX-A: 0123456\x7f9\r\n\r\n", errField, 0},
		{"a CR inside a line", "HTTP/1.1 200 OK\r\nX-A: b\rX-B: c\r\n\r\n", errField, 0},
		{"a CR before the CR LF", "HTTP/1.1 200 OK\r\nX-A: b\r\r\n\r\n", errField, 0},
		{"another protocol", "HTTP/2.0 200 OK\r\n\r\n", errNotHTTP, 0},
		{"two digits of status", "HTTP/1.1 20 OK\r\n\r\n", errNotHTTP, 0},
		{"a status below 100", "HTTP/1.1 099 OK\r\n\r\n", errNotHTTP, 0},
		{"four digits of status", "HTTP/1.1 2000 OK\r\n\r\n", errNotHTTP, 0},
		{"two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n", errNotHTTP, 0},
		{"a lower-case protocol", "http/1.1 200 OK\r\n\r\n", errNotHTTP, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scanned := 0
			require.Equal(t, len(tt.raw), headEnd([]byte(tt.raw), &scanned), "the end of the head")
			var h head
			err := h.parse(tt.raw)
			require.Equal(t, tt.err, err)
			if err == nil {
				require.Equal(t, 200, h.Status)
				require.Equal(t, tt.length, h.ContentLength)
			}
		})
	}
}

func TestFieldsKeepTheirSpellingAndOrder(t *testing.T) {
	var h head
	require.NoError(t, h.parse("HTTP/1.1 429 Slow Down\r\nset-cookie: a\r\nReTry-AFTER:  7 \r\nset-cookie: b\r\nConnection: X-Foo\r\nconnection: close\r\n\r\n"))
	require.Equal(t, 429, h.Status)
	var got []string
	for _, f := range h.Fields {
		got = append(got, f.Name+"="+f.Value)
	}
	require.Equal(t, []string{"set-cookie=a", "ReTry-AFTER=7", "set-cookie=b", "Connection=X-Foo", "connection=close"}, got)
	require.Equal(t, "X-Foo,close", h.Connection)
}

func TestPersistence(t *testing.T) {
	tests := []struct {
		name, raw string
		want      bool
	}{
		{"HTTP/1.1 stays open", "HTTP/1.1 200 OK\r\n\r\n", true},
		{"HTTP/1.1 closes when it says so", "HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n", false},
		{"close counts wherever it stands", "HTTP/1.1 200 OK\r\nConnection: X-Foo , close\r\n\r\n", false},
		{"a longer word is another word", "HTTP/1.1 200 OK\r\nConnection: close-not\r\n\r\n", true},
		{"HTTP/1.0 closes", "HTTP/1.0 200 OK\r\n\r\n", false},
		{"HTTP/1.0 stays open when it says so", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h head
			require.NoError(t, h.parse(tt.raw))
			require.Equal(t, tt.want, h.persistent())
		})
	}
}

// FuzzHead checks that the end of a head is found alike however it arrives, and that what was accepted holds no control
// character and one length at most.
func FuzzHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.0 404\nX: y\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: a, b\r\n\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole := 0
		end := headEnd(raw, &whole)
		scanned, piecewise := 0, -1
		for n := 0; n <= len(raw) && piecewise < 0; n++ {
			piecewise = headEnd(raw[:n], &scanned)
		}
		if end != piecewise {
			t.Fatalf("end at %d of the whole, at %d of the pieces", end, piecewise)
		}
		var h head
		if end < 0 || h.parse(string(raw[:end])) != nil {
			return
		}
		if h.Status < 100 || h.Status > 999 || h.chunked && h.ContentLength >= 0 {
			t.Fatalf("accepted: %+v", h)
		}
		for _, field := range h.Fields {
			if !isToken(field.Name) || !plainText(field.Value) || trimSpace(field.Value) != field.Value {
				t.Fatalf("accepted: %q: %q", field.Name, field.Value)
			}
		}
	})
}
