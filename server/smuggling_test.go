package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// hidden is a request that a client tries to get past whoever is in front of the gateway.
const hidden = "POST /generate HTTP/1.1\r\nHost: hidden\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n" + `{"text":"hi"}`

// Issue "bad input", http-dataplane.md section 15, DECISIONS.md row 25: what is no request, or could be two, is refused in words, its
// connection is closed, and nothing of it or behind it reaches a worker. Over TLS as without.
func TestWhatIsNoRequestIsRefusedAndForwardedToNobody(t *testing.T) {
	const malformed = "malformed_request"
	post := func(lines ...string) string { return rawHead("HTTP/1.1", chatPath, lines...) }
	length := fmt.Sprintf("Content-Length: %d", len(chat))
	tests := []struct {
		name, sent string
		status     int
		code, says string
	}{
		{"both lengths, chunks first", post("Transfer-Encoding: chunked", "Content-Length: 4") + "0\r\n\r\n" + hidden, 400, malformed, "both Content-Length and Transfer-Encoding"},
		{"both lengths, length first", post("Content-Length: 4", "Transfer-Encoding: chunked") + inChunks(chat, 9) + hidden, 400, malformed, "both Content-Length and Transfer-Encoding"},
		{"both lengths, one with a blank", post("Content-Length: 4", "Transfer-Encoding : chunked") + inChunks(chat, 9) + hidden, 400, malformed, "a blank behind it"},
		{"both lengths, one folded", post("Content-Length: 4", "Transfer-Encoding:\r\n chunked") + inChunks(chat, 9) + hidden, 400, malformed, "second line"},
		{"two lengths that differ", post(length, "Content-Length: 4") + chat + hidden, 400, malformed, "more than one Content-Length"},
		{"two lengths that are the same", post(length, length) + chat + hidden, 400, malformed, "more than one Content-Length"},
		{"a list of lengths", post("Content-Length: 4, 4") + chat + hidden, 400, malformed, "not a number"},
		{"a length with a sign", post("Content-Length: +4") + chat + hidden, 400, malformed, "not a number"},
		{"a negative length", post("Content-Length: -4") + chat + hidden, 400, malformed, "not a number"},
		{"a length in hexadecimal", post("Content-Length: 0x4") + chat + hidden, 400, malformed, "not a number"},
		{"an empty length", post("Content-Length:") + chat + hidden, 400, malformed, "not a number"},
		{"a length beyond all numbers", post("Content-Length: 92233720368547758080") + chat + hidden, 400, malformed, "not a number"},
		{"two codings", post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + inChunks(chat, 9) + hidden, 400, malformed, "more than one Transfer-Encoding"},
		{"a list of codings", post("Transfer-Encoding: gzip, chunked") + inChunks(chat, 9) + hidden, 501, "unsupported_transfer_encoding", "chunked"},
		{"a coding that nobody knows", post("Transfer-Encoding: xchunked") + inChunks(chat, 9) + hidden, 501, "unsupported_transfer_encoding", "chunked"},
		{"a coding in quotes", post(`Transfer-Encoding: "chunked"`) + inChunks(chat, 9) + hidden, 501, "unsupported_transfer_encoding", "chunked"},
		{"a coding behind a vertical tab", post("Transfer-Encoding: \x0bchunked") + inChunks(chat, 9) + hidden, 400, malformed, ""},
		{"chunks in HTTP/1.0", rawHead("HTTP/1.0", chatPath, "Transfer-Encoding: chunked", "Connection: keep-alive") + inChunks(chat, 9) + hidden, 400, malformed, "HTTP/1.0"},
		{"lines that end without CR", strings.ReplaceAll(post(length), "\r\n", "\n") + chat + hidden, 400, malformed, "without CR"},
		{"one line that ends without CR", post(length+"\nX-Hidden: 1") + chat + hidden, 400, malformed, "without CR"},
		{"a CR within a field", post(length, "X-A: a\rX-B: b") + chat + hidden, 400, malformed, "is malformed"},
		{"a field that is folded", post(length, "X-A: a\r\n\tb") + chat + hidden, 400, malformed, "second line"},
		{"a blank in front of the colon", post("Content-Length : 4") + chat + hidden, 400, malformed, "a blank behind it"},
		{"a blank in a name", post(length, "X A: b") + chat + hidden, 400, malformed, ""},
		{"a line without a colon", post(length, "X-A") + chat + hidden, 400, malformed, "no name"},
		{"a field without a name", post(length, ": b") + chat + hidden, 400, malformed, "no name"},
		{"a NUL in a value", post(length, "X-A: a\x00b") + chat + hidden, 400, malformed, "is malformed"},
		{"a NUL in a name", post(length, "X\x00A: b") + chat + hidden, 400, malformed, ""},
		{"several Hosts", post(length, "Host: other") + chat + hidden, 400, malformed, ""},
		{"a Host with a blank", "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n" + hidden, 400, malformed, "Host"},
		{"no Host", "GET /health HTTP/1.1\r\n\r\n" + hidden, 400, malformed, "Host"},
		{"no version", "GET /health\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"two blanks in the request line", "GET  /health HTTP/1.1\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"more in the request line", "GET /health HTTP/1.1 x\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"a tab in the request line", "GET\t/health\tHTTP/1.1\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"a method that is no word", "GE(T /health HTTP/1.1\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"a target that is none", "GET health HTTP/1.1\r\nHost: x\r\n\r\n" + hidden, 400, malformed, ""},
		{"another protocol", "GET /health HTTP/3.0\r\nHost: x\r\n\r\n" + hidden, 505, "unsupported_http_version", "version"},
		{"no HTTP at all", "\x16\x03\x01\x00\xff\r\n\r\n" + hidden, 400, malformed, ""},
		{"a head of more than 1 MiB", post(length, "X-A: "+strings.Repeat("a", 1100<<10)) + chat + hidden, 431, "request_headers_too_large", "too large"},
		{"a head of too many fields", post(append([]string{length}, strings.Split(strings.Repeat("X-A: b,", 200_000), ",")[:200_000]...)...) + chat + hidden, 431, "request_headers_too_large", "too large"},
	}
	a := newAuthority(t)
	e := engine.Start(t, engine.Config{})
	plain := start(t, nil, e)
	secure := startSecure(t, a, a.issue(t, "gateway"), nil, e.URL)
	for _, tt := range tests {
		for _, over := range []struct {
			name string
			dial func(t *testing.T) net.Conn
		}{
			{"", func(t *testing.T) net.Conn { return plain.dial(t) }},
			{", over TLS", func(t *testing.T) net.Conn { return secure.dialSecure(t, a) }},
		} {
			t.Run(tt.name+over.name, func(t *testing.T) {
				e.ClearRequests()
				c := over.dial(t)
				in := bufio.NewReader(c)
				sent := make(chan struct{})
				go func() { // it may be refused before all of it has gone
					defer close(sent)
					_, _ = io.WriteString(c, tt.sent)
				}()
				r := readRaw(t, in, false)
				require.Equal(t, tt.status, r.Status, r.Body)
				require.Equal(t, []string{tt.code}, r.Head["X-Smg-Error-Code"])
				require.Equal(t, []string{"application/json"}, r.Head["Content-Type"])
				require.NotEmpty(t, r.Head.Get("X-Request-Id"))
				require.Contains(t, r.Body, `"code":"`+tt.code+`"`)
				require.Contains(t, r.Body, tt.says)
				rest, _ := io.ReadAll(in)
				require.Empty(t, rest, "one answer, and the connection is closed")
				<-sent
				require.Empty(t, posts(e))
			})
		}
	}
	plain.quiet(t)
	secure.quiet(t)
	require.Equal(t, http.StatusOK, plain.post(t, chatPath, chat).StatusCode)
}

// Issue "bad input", http-dataplane.md section 4: a body that is no body ends its request and its connection; the worker sees no
// request that is whole, and nothing of what is behind.
func TestABodyThatIsNoneIsRefused(t *testing.T) {
	chunked := rawHead("HTTP/1.1", chatPath, "Transfer-Encoding: chunked")
	tests := []struct{ name, body string }{
		{"a size that is no number", "x\r\n" + chat + "\r\n0\r\n\r\n"},
		{"a size with a sign", "+4\r\nabcd\r\n0\r\n\r\n"},
		{"a negative size", "-4\r\nabcd\r\n0\r\n\r\n"},
		{"a size with a prefix", "0x4\r\nabcd\r\n0\r\n\r\n"},
		{"a size beyond all numbers", "fffffffffffffffff\r\nabcd\r\n0\r\n\r\n"},
		{"a size behind a blank", " 4\r\nabcd\r\n0\r\n\r\n"},
		{"no size", "\r\nabcd\r\n0\r\n\r\n"},
		{"a size whose line ends without CR", "4\nabcd\r\n0\r\n\r\n"},
		{"a chunk that ends without CR", "4\r\nabcd\n0\r\n\r\n"},
		{"a chunk that is longer than it says", "4\r\nabcdef\r\n0\r\n\r\n"},
		{"an extension whose line ends without CR", "4;a\nb\r\nabcd\r\n0\r\n\r\n"},
		{"a trailer that is folded", fmt.Sprintf("%x\r\n%s\r\n0\r\nX-A: a\r\n b\r\n\r\n", len(chat), chat)},
		{"a trailer whose line ends without CR", fmt.Sprintf("%x\r\n%s\r\n0\r\nX-A: a\n\r\n", len(chat), chat)},
	}
	for _, way := range ways {
		e := engine.Start(t, engine.Config{})
		g := start(t, way.configure, e)
		for _, tt := range tests {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				e.ClearRequests()
				c := g.dial(t)
				r := c.ask(t, false, chunked+tt.body+hidden)
				require.Equal(t, http.StatusBadRequest, r.Status, r.Body)
				require.Equal(t, []string{"request_body_aborted"}, r.Head["X-Smg-Error-Code"])
				rest, _ := io.ReadAll(c.in)
				require.Empty(t, rest, "one answer, and the connection is closed")
				for _, r := range posts(e) {
					require.NotEqual(t, "/generate", r.Path)
					require.Equal(t, "streamed", way.name, "%q", r.Body)
				}
				g.quiet(t)
				require.Zero(t, g.failures())
			})
		}
	}
}
