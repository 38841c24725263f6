package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// RFC 9112, section 6
func TestAnswersAreFramed(t *testing.T) {
	tests := []struct {
		name, text, body string
		status           int
		closes           bool
	}{
		{"by a length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", 200, false},
		{"by a length of 0", "HTTP/1.1 429 Too Many Requests\r\ncontent-length:0\r\n\r\n", "", 429, false},
		{"by chunks, with an extension and a trailer", "HTTP/1.1 200 OK\r\nTRANSFER-ENCODING: Chunked\r\n\r\n3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n", "abc0123456789", 200, false},
		{"by chunks even if there is a length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "x", 200, false},
		{"by the end of the connection", "HTTP/1.1 502 Bad Gateway\r\n\r\nall of it", "all of it", 502, true},
		{"by their status", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
		{"behind interim answers", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", "x", 200, false},
		{"and the connection may be given up", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
		{"and HTTP/1.0 does not keep it", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				var body bytes.Buffer
				res, err := newResponseReader(src).next(func(part []byte) { body.Write(part) })
				require.NoError(t, err)
				require.Equal(t, response{status: tt.status, bytes: int64(len(tt.body)), closes: tt.closes}, res)
				require.Equal(t, tt.body, body.String())
			}
		})
	}
}

func TestAnswersFollowOneAnother(t *testing.T) {
	r := newResponseReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
	first, err := r.next(nil)
	require.NoError(t, err)
	require.Equal(t, response{status: 200, bytes: 3}, first)
	second, err := r.next(nil)
	require.NoError(t, err)
	require.Equal(t, response{status: 503, bytes: 1}, second)
	_, err = r.next(nil)
	require.ErrorIs(t, err, io.EOF)
}

func TestAnswersThatAreCutOrBrokenAreErrors(t *testing.T) {
	tests := []struct{ name, text, says string }{
		{"the head is cut", "HTTP/1.1 200 OK\r\nContent-Le", "unexpected EOF"},
		{"the body is cut", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "unexpected EOF"},
		{"a chunk is cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "unexpected EOF"},
		{"the last chunk is missing", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "unexpected EOF"},
		{"a chunk is longer than its size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", "goes on"},
		{"a size is no number", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "chunk size"},
		{"a length is no number", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "length"},
		{"a header has no colon", "HTTP/1.1 200 OK\r\nwhat\r\n\r\n", "header"},
		{"it is not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "status line"},
		{"the status is no number", "HTTP/1.1 abc\r\n", "not a status"},
		{"a line does not end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxLine), "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newResponseReader(strings.NewReader(tt.text)).next(nil)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

// FuzzResponse checks that an answer is understood alike however the network cuts it.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 500 x\n\nrest"))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(src io.Reader) (response, string, bool) {
			var body bytes.Buffer
			res, err := newResponseReader(src).next(func(part []byte) { body.Write(part) })
			return res, body.String(), err == nil
		}
		res, body, ok := read(bytes.NewReader(text))
		if ok && res.bytes != int64(len(body)) {
			t.Fatalf("%d bytes are said, %d were given", res.bytes, len(body))
		}
		slowRes, slowBody, slowOK := read(iotest.OneByteReader(bytes.NewReader(text)))
		if res != slowRes || body != slowBody || ok != slowOK {
			t.Fatalf("at once: %v %q %t; byte by byte: %v %q %t", res, body, ok, slowRes, slowBody, slowOK)
		}
	})
}
