package engine

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RFC 9112, sections 2.2, 3, 5.1 and 6.3
func TestHeadsAreReadStrictly(t *testing.T) {
	tests := []struct {
		name, raw string
		want      error
	}{
		{"a request line alone is a head", "GET / HTTP/1.1", nil},
		{"a space before the colon is an error", "GET / HTTP/1.1\r\nA : b", errMalformed},
		{"a folded line is an error", "GET / HTTP/1.1\r\nA: b\r\n c", errMalformed},
		{"a line without a colon is an error", "GET / HTTP/1.1\r\nA", errMalformed},
		{"a bare line feed is an error", "GET / HTTP/1.1\r\nA: b\nC: d", errMalformed},
		{"two equal lengths are one", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3", nil},
		{"two different lengths are an error", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4", errMalformed},
		{"a length beside chunked is an error", "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked", errMalformed},
		{"a signed length is an error", "POST / HTTP/1.1\r\nContent-Length: +3", errMalformed},
		{"a length beyond all bounds is too large", "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999", errBodySize},
		{"another transfer coding is an error", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip", errMalformed},
		{"another protocol is an error", "GET / HTTP/2.0", errMalformed},
		{"an empty target is an error", "GET  HTTP/1.1", errMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h head
			require.ErrorIs(t, h.parse([]byte(tt.raw)), tt.want)
		})
	}
}

func TestHeadFields(t *testing.T) {
	var h head
	raw := "POST /v1/x?y=z HTTP/1.1\r\nAUTHORIZATION:  Bearer k \r\ncontent-length: 12\r\nExpect: 100-Continue\r\nConnection: Close"
	require.NoError(t, h.parse([]byte(raw)))
	require.Equal(t, "POST /v1/x Bearer k", strings.Join([]string{string(h.method), string(h.path), string(h.auth)}, " "))
	require.Equal(t, 12, h.length)
	require.True(t, h.expect && h.close && !h.chunked && !h.oldProtocol)
}

func TestWhatIsNoRequestIsRefusedAndTheConnectionClosed(t *testing.T) {
	tests := []struct {
		name, raw string
		status    int
	}{
		{"no HTTP", "hello\r\n\r\n", 400},
		{"a head without end", "GET / HTTP/1.1\r\nA: " + strings.Repeat("a", maxHead+firstBuffer) + "\r\n", 431},
		{"a body too large", "POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", 413},
		{"a chunk without size", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		{"a chunk without its end", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nc, r := dial(t, Start(t, Config{}))
			_, _ = nc.Write([]byte(tt.raw)) // it may be refused before all is written
			resp, _ := readAnswer(t, r)
			require.Equal(t, tt.status, resp.StatusCode)
			_, err := r.ReadByte()
			require.Error(t, err)
		})
	}
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1"))
	f.Add([]byte("POST /v1/x?y HTTP/1.0\r\nContent-Length: 5\r\nAuthorization: Bearer x\r\nConnection: close"))
	f.Add([]byte("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h head
		if h.parse(raw) != nil {
			return
		}
		if h.length < 0 || h.length > maxBody || len(h.method) == 0 || h.chunked && h.hasLength {
			t.Fatalf("%q gave %+v", raw, h)
		}
		if !bytes.HasPrefix(raw, h.method) || !bytes.Contains(raw, h.path) {
			t.Fatalf("method or path is no part of %q", raw)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	f.Add([]byte("ff"), true)
	f.Add([]byte("99999999999999999999"), false)
	f.Fuzz(func(t *testing.T, b []byte, hex bool) {
		base := 10
		if hex {
			base = 16
		}
		if n, err := parseSize(b, base); err == nil && (n < 0 || n > maxBody) {
			t.Fatalf("%q is %d", b, n)
		}
	})
}
