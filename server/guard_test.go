package server

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Issue "bad input": what two readers could take for different requests is stopped, and what is in front of it goes on.
func TestGuardStopsWhatTwoReadersCouldReadInTwoWays(t *testing.T) {
	const good = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
	tests := []struct {
		name, sent string
		goesOn     int // bytes
		want       error
	}{
		{"one request", good, len(good), nil},
		{"two requests, and an empty line between them", good + "\r\n" + good, 2*len(good) + 2, nil},
		{"a request without a body, and one with", "GET / HTTP/1.1\r\n\r\n" + good, 18 + len(good), nil},
		{"chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=b\r\na\nb\r\n00\r\nX: y\r\n\r\n" + good, 71 + len(good), nil},
		{"a body is no head", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\n b\n" + good, 43 + len(good), nil},
		{"an end of a line without CR", good + "GET / HTTP/1.1\nHost: x\r\n\r\n", len(good), errBareLF},
		{"an end of a head without CR", good + "GET / HTTP/1.1\r\nHost: x\r\n\n", len(good), errBareLF},
		{"a field that goes on", "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 0, errFolded},
		{"a field that goes on behind a tab", "GET / HTTP/1.1\r\nX: a\r\n\tb\r\n\r\n", 0, errFolded},
		{"a first field that goes on", "GET / HTTP/1.1\r\n X: a\r\n\r\n", 0, errFolded},
		{"a trailer that goes on", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n", 47, errFolded},
		{"both lengths", "POST / HTTP/1.1\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r\n\r\n", 0, errBothLengths},
		{"both lengths, one behind a blank", "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding : chunked\r\n\r\n", 0, errName},
		{"a line without a name", "POST / HTTP/1.1\r\n: 3\r\n\r\n", 0, errName},
		{"a line without a colon", "POST / HTTP/1.1\r\nContent-Length\r\n\r\n", 0, errName},
		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", 0, errLengths},
		{"two codings", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0, errCodings},
		{"a coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, errOldCoding},
		{"a length with a sign", "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", 0, errLength},
		{"a length that is a list", "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n", 0, errLength},
		{"a length that is huge", "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 0, errLength},
		{"a chunk with a sign", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", 47, errChunk},
		{"a chunk of nothing", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", 47, errChunk},
		{"a chunk whose line has no CR", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 47, errBareLF},
		{"a chunk that is longer than it says", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 53, errChunk},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &guard{}
			n, err := g.pass([]byte(tt.sent))
			require.Equal(t, tt.want, err)
			require.Equal(t, tt.goesOn, n, "%q", tt.sent[:n])
			require.Equal(t, tt.want, byteByByte([]byte(tt.sent)).err)
		})
	}
}

// byteByByte is a guard that has been given bytes one after the other.
func byteByByte(sent []byte) *guard {
	g := &guard{}
	for i := range sent {
		if _, err := g.pass(sent[i : i+1]); err != nil {
			break
		}
	}
	return g
}

// What the guard lets through, net/http reads as the same requests; and it does not matter in which pieces it comes.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\nHost: x\n\n", "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n\r\nabc",
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole := &guard{}
		n, err := whole.pass(sent)
		require.Equal(t, err, byteByByte(sent).err)
		require.Equal(t, err == nil, n == len(sent))
		in := bytes.NewReader(sent[:n])
		buffered := bufio.NewReader(in)
		for {
			r, err := http.ReadRequest(buffered)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			at := n - in.Len() - buffered.Buffered()
			g := &guard{}
			_, err = g.pass(sent[:at])
			require.NoError(t, err)
			require.Truef(t, g.state == beforeHead && g.left == 0 && len(g.line) == 0, "net/http sees the end of a request behind %q", sent[:at])
		}
	})
}

// BenchmarkGuard is what the guard costs a request of usual size.
func BenchmarkGuard(b *testing.B) {
	head := rawPost("HTTP/1.1", chatPath, strings.Repeat("x", 1024), "Accept: */*", "User-Agent: a-client/1.0", "Accept-Encoding: gzip, deflate",
		"Connection: keep-alive", "Authorization: Bearer 0123456789abcdef", "X-Request-Id: 0123456789")
	g := &guard{}
	sent := []byte(head)
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.pass(sent); err != nil {
			b.Fatal(err)
		}
	}
}
