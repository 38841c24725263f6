package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wire is a client's connection, for what a well-behaved HTTP client does not do. Its answer is read with read.
type wire struct {
	*net.TCPConn
	in *bufio.Reader
}

// dial opens a client's connection; it is closed when the test ends, and fails rather than waits for ever.
func (g *running) dial(t testing.TB) *wire {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &wire{c.(*net.TCPConn), bufio.NewReader(c)}
}

// post sends a request head, and as much of the declared body as is given.
func (w *wire) post(t testing.TB, path string, length int, body string, headers ...string) {
	t.Helper()
	lines := append([]string{
		"POST " + path + " HTTP/1.1", "Host: gateway", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", length),
	}, headers...)
	_, err := io.WriteString(w, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
	require.NoError(t, err)
}

// read reads the head of an answer; its body is read by the caller.
func (w *wire) read(t testing.TB) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(w.in, nil)
	require.NoError(t, err)
	return resp
}

// leave closes the connection; with reset, as a crashed client's system does.
func (w *wire) leave(reset bool) {
	if reset {
		_ = w.SetLinger(0)
	}
	_ = w.Close()
}

// whole reads an answer to its end; it may be called on any goroutine.
func (w *wire) whole() response {
	_ = w.SetDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return response{Response: &http.Response{}, Err: err}
	}
	body, err := io.ReadAll(resp.Body)
	return response{resp, string(body), err}
}
