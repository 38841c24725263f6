package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rawAnswer is an answer as it came over the wire, with nothing left out of its head.
type rawAnswer struct {
	Status  int
	Proto   string
	Head    textproto.MIMEHeader
	Body    string
	Framing string // none, length, chunked or close
}

// ask sends bytes as they are and reads one answer. bodiless answers are those to HEAD.
func (w *wire) ask(t testing.TB, bodiless bool, request string) rawAnswer {
	t.Helper()
	_, err := io.WriteString(w, request)
	require.NoError(t, err)
	return readRaw(t, w.in, bodiless)
}

// readRaw reads the next final answer to its end.
func readRaw(t testing.TB, in *bufio.Reader, bodiless bool) rawAnswer {
	t.Helper()
	r := readRawHead(t, in)
	for r.Status < 200 {
		r = readRawHead(t, in)
	}
	var err error
	var body []byte
	lengths, codings := r.Head["Content-Length"], r.Head["Transfer-Encoding"]
	require.LessOrEqual(t, len(lengths)+len(codings), 1, "one framing")
	switch {
	case bodiless || r.Status == 204 || r.Status == 304:
		r.Framing = "none"
	case len(codings) == 1:
		require.Equal(t, "chunked", codings[0])
		r.Framing = "chunked"
		body, err = io.ReadAll(httputil.NewChunkedReader(in))
		require.NoError(t, err)
		_, err = textproto.NewReader(in).ReadMIMEHeader() // trailers, and the line end that the reader of chunks leaves
	case len(lengths) == 1:
		r.Framing = "length"
		n, malformed := strconv.Atoi(lengths[0])
		require.NoError(t, malformed)
		body = make([]byte, n)
		_, err = io.ReadFull(in, body)
	default:
		r.Framing = "close"
		body, err = io.ReadAll(in)
	}
	require.NoError(t, err)
	r.Body = string(body)
	return r
}

// readRawHead reads one head, which may be an informational one.
func readRawHead(t testing.TB, in *bufio.Reader) (r rawAnswer) {
	t.Helper()
	text := textproto.NewReader(in)
	line, err := text.ReadLine()
	require.NoError(t, err)
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	r.Proto = proto
	r.Status, err = strconv.Atoi(code)
	require.NoError(t, err, line)
	r.Head, err = text.ReadMIMEHeader()
	require.NoError(t, err)
	return r
}

// rawPost is a POST with a body of a declared length.
func rawPost(proto, path, body string, lines ...string) string {
	return rawHead(proto, path, append(lines, fmt.Sprintf("Content-Length: %d", len(body)))...) + body
}

// rawHead is the head of a POST of JSON.
func rawHead(proto, path string, lines ...string) string {
	lines = append([]string{"POST " + path + " " + proto, "Host: gateway", "Content-Type: application/json"}, lines...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// inChunks is a body in chunks of so many bytes.
func inChunks(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}
