package server

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// patientWithAll waits longer than any test for clients: whatever ends in time does not end by these.
func patientWithAll(c *Config) {
	c.HeaderReadTimeout, c.IdleConnectionTimeout, c.BodyStallTimeout, c.RequestTimeout = 600, 600, 600, 600
}

// http-dataplane.md section 11.1 ("429 at once"), DECISIONS 38: an answer that needs no body does not wait for one that never comes, and the
// connection ends with it.
func TestAnAnswerDoesNotWaitForABodyThatNobodyWants(t *testing.T) {
	key := "k"
	h := newHolder()
	g := startPuppets(t, func(c *Config) {
		patientWithAll(c)
		c.APIKey, c.MaxConcurrentRequests, c.QueueSize, c.CORSAllowedOrigins = &key, 1, 0, []string{"https://a.example"}
	}, startPuppet(t, h.play))
	held := g.dial(t)
	held.post(t, chatPath, len(chats), chats, "Authorization: Bearer k")
	held.read(t)
	const declared, chunked = "Content-Length: 100", "Transfer-Encoding: chunked"
	tests := []struct {
		name, line, framing string
		more                string
		status              int
	}{
		{"no key", "POST " + chatPath, declared, "", 401},
		{"no key, in chunks", "POST " + chatPath, chunked, "", 401},
		{"no key on a route for operators", "POST /workers", declared, "", 401},
		{"no such path", "POST /nowhere", declared, "", 404},
		{"not that method", "PUT " + chatPath, declared, "", 405},
		{"a probe with a body", "GET /health", declared, "", 200},
		{"no place", "POST " + chatPath, declared, "Authorization: Bearer k\r\nContent-Type: application/json", 429},
		{"a list with a body", "GET /workers", declared, "Authorization: Bearer k", 200},
		{"a browser's question", "OPTIONS " + chatPath, declared, "Origin: https://a.example\r\nAccess-Control-Request-Method: POST", 204},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // each waits for a moment
			c := g.dial(t)
			lines := []string{tt.line + " HTTP/1.1", "Host: gateway", tt.framing}
			if tt.more != "" {
				lines = append(lines, tt.more)
			}
			_, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n5\r\n{")
			require.NoError(t, err)
			answer := c.whole()
			require.NoError(t, answer.Err)
			require.Equal(t, tt.status, answer.StatusCode, answer.Body)
			_, err = c.in.ReadByte()
			require.ErrorIs(t, err, io.EOF, "what comes next is the rest of a body")
		})
	}
	t.Cleanup(func() {
		close(h.release)
		g.quiet(t)
	})
}

// A body that comes with its head, or right behind, costs nobody the connection.
func TestAConnectionOutlivesABodyThatNobodyWanted(t *testing.T) {
	g := start(t, patientWithAll, engine.Start(t, engine.Config{}))
	c := g.dial(t)
	for range 3 {
		_, err := io.WriteString(c, "POST /nowhere HTTP/1.1\r\nHost: gateway\r\nContent-Length: 10\r\n\r\n01234")
		require.NoError(t, err)
		_, err = io.WriteString(c, "56789")
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, c.whole().StatusCode)
	}
	c.post(t, chatPath, len(chat), chat)
	require.Equal(t, http.StatusOK, c.whole().StatusCode)
}

func TestAnAnswerDoesNotWaitForABodyOverTLS(t *testing.T) {
	a := newAuthority(t)
	g := startSecure(t, a, a.issue(t, "gateway"), patientWithAll, engine.Start(t, engine.Config{}).URL)
	c := g.dialSecure(t, a)
	_, err := io.WriteString(c, "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	_, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// workers.md section 21: with nothing in flight there is nothing to wait for, be there connections that never said a word or bodies that
// never come. The web server itself would wait 5 s for the former.
func TestShutdownDoesNotWaitForClientsThatAreSilent(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, func(c *Config) {
		patientWithAll(c)
		c.ShutdownGracePeriod = 4
	}, engine.Start(t, engine.Config{}))
	g.settle = 0
	silent, stalled := g.dial(t), g.dial(t)
	_, err := io.WriteString(stalled, "POST /nowhere HTTP/1.1\r\nHost: gateway\r\nContent-Length: 10\r\n\r\n01234")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, stalled.whole().StatusCode, "so both have been accepted")
	g.stop <- syscall.SIGTERM
	g.ended(t)
	require.Contains(t, g.Log.String(), ": drained")
	require.NotContains(t, g.Log.String(), "grace period over")
	_, err = silent.in.ReadByte()
	require.Error(t, err)
}
