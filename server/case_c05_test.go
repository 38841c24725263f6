package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C05, http-dataplane.md sections 9.2 to 9.4: whenever a client goes, its worker is let go at once, nobody else is asked, and
// nobody is blamed.
func TestC05AClientThatGoesLetsItsWorkerGo(t *testing.T) {
	const clients = 5
	zero, one := 0, 1
	silent := engine.Fault{HangHeadMillis: -1}
	unread := func(c *Config) { c.DisableRetries = true } // bodies go to the worker as they come
	tests := []struct {
		name      string
		path      string
		body      string
		fault     engine.Fault
		sent      int // bytes of the body that the client sends; 0: all
		sees      int // bytes of the answer that the client reads before it goes
		configure func(*Config)
	}{
		{name: "after the first event of a stream", body: chats, fault: engine.Fault{HangAfterEvents: &one}, sees: 20},
		{name: "before the head of a stream", body: chats, fault: silent},
		{name: "before the answer", body: chat, fault: silent},
		{name: "after the head of an answer that is read whole", body: chat, fault: engine.Fault{HangAfterEvents: &zero}},
		{name: "in the middle of a busy stream", body: chats, fault: engine.Fault{ITLMillis: 1}, sees: 2000},
		{name: "while an error that may be retried is read", body: chat, fault: engine.Fault{Status: 429, HangAfterEvents: &zero}},
		{name: "before the answer to a body that was streamed", body: chat, fault: silent, configure: unread},
		{
			name: "in the middle of the upload of a body that is streamed", body: chat + strings.Repeat(" ", 1<<20), fault: silent,
			sent: 1000, configure: unread,
		},
		{name: "POST /generate", path: "/generate", body: `{"text":"hi","stream":true}`, fault: engine.Fault{HangAfterEvents: &one}, sees: 20},
		{name: "POST /v1/completions", path: "/v1/completions", body: `{"model":"m1","prompt":"hi"}`, fault: silent},
		{
			name: "POST /v1/messages", path: "/v1/messages",
			body: `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}`, fault: silent,
		},
		{name: "POST /v1/embeddings", path: "/v1/embeddings", body: `{"model":"m1","input":"hi"}`, fault: silent},
		{name: "POST /v1/responses", path: "/v1/responses", body: `{"model":"m1","input":"hi"}`, fault: silent},
		{name: "POST /v1/rerank", path: "/v1/rerank", body: `{"query":"hi","documents":["a"]}`, fault: silent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == "" {
				tt.path = chatPath
			}
			w1, w2 := engine.Start(t, engine.Config{Reply: 20_000}), engine.Start(t, engine.Config{Reply: 20_000})
			w1.SetFaults(tt.fault)
			w2.SetFaults(tt.fault)
			g := start(t, tt.configure, w1, w2)
			g.visit(t, clients, tt.path, tt.body, tt.sent, tt.sees, func() int { return len(posts(w1)) + len(posts(w2)) })

			for _, e := range []*engine.Running{w1, w2} {
				require.Eventually(t, func() bool { return everyPeerLeft(posts(e)) }, patience, time.Millisecond, "the worker goes on for nobody")
			}
			g.quiet(t)
			require.Equal(t, clients, len(posts(w1))+len(posts(w2)), "one request for each client")
			require.Zero(t, g.failures(), "not the worker's fault")
			require.Eventually(t, func() bool { return !forwarding() }, patience, 5*time.Millisecond, "a goroutine stays")
			if tt.sent == 0 {
				left := g.gateway.metrics.HTTP.Route(tt.path).Response(499, "client_closed_request")
				require.EqualValues(t, clients, testutil.ToFloat64(left))
			}
		})
	}
}

// visit sends requests one by one, and leaves when the worker has each, and the client what it wants of the answer; every second
// client's connection is reset.
func (g *running) visit(t *testing.T, clients int, path, body string, sent, sees int, arrived func() int) {
	t.Helper()
	if sent == 0 {
		sent = len(body)
	}
	for i := range clients {
		c := g.dial(t)
		c.post(t, path, len(body), body[:sent])
		require.Eventually(t, func() bool { return arrived() >= i+1 }, patience, time.Millisecond, "the worker has no request")
		if sees > 0 {
			resp := c.read(t)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			_, err := io.CopyN(io.Discard, resp.Body, int64(sees))
			require.NoError(t, err)
		}
		c.leave(i%2 == 1)
	}
}

// forwarding tells whether any goroutine is at work for an attempt.
func forwarding() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Contains(stacks, []byte("stages/forward.(*forward)")) || bytes.Contains(stacks, []byte("stages/forward.(*writer)"))
}

func everyPeerLeft(all []engine.Request) bool {
	for _, r := range all {
		if r.ClosedAt == nil {
			return false
		}
	}
	return true
}

// C05, http-dataplane.md section 10: a client that goes between two attempts ends them.
func TestC05NoAttemptFollowsAfterTheClientHasGone(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	w.SetFaults(engine.Fault{Status: 503})
	g := start(t, func(c *Config) { c.RetryInitialBackoff, c.RetryMaxBackoff = 1_200_000, 1_200_000 }, w)
	c := g.dial(t)
	c.post(t, chatPath, len(chat), chat)
	worker := g.gateway.registry.All()[0]
	require.Eventually(t, func() bool { return len(posts(w)) == 1 && worker.InFlight() == 0 }, patience, time.Millisecond)
	require.Equal(t, 1, g.gateway.metrics.Inflight.Len(), "the request waits for its second attempt")
	c.leave(false)
	g.quiet(t) // it would take many minutes
	require.Len(t, posts(w), 1)
}

// C05: a client that goes before its request is whole is nobody's business but the gateway's.
func TestC05NobodyIsAskedForARequestThatNeverWasWhole(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	body := strings.Repeat(" ", 1000) + chat
	for i, sent := range []int{0, 1, 999, len(body) - 1} {
		t.Run(fmt.Sprintf("%d of %d bytes", sent, len(body)), func(t *testing.T) {
			c := g.dial(t)
			c.post(t, chatPath, len(body), body[:sent])
			require.Eventually(t, func() bool { return g.gateway.metrics.Inflight.Len() == 1 }, patience, time.Millisecond)
			c.leave(i%2 == 1)
			g.quiet(t)
			require.Empty(t, posts(w))
		})
	}
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
}
