package server

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// perHop are an answer's lines that concern the worker's connection, with a cookie and a line that do not.
var perHop = []string{
	"Connection: X-Foo", "X-Foo: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Proxy-Connection: keep-alive",
	"Trailer: X-T", "Upgrade: h2c", "TE: trailers", "X-Keep: yes", "Set-Cookie: a=1", "Set-Cookie: b=2",
}

var fiveEvents = []string{"data: 1\n\n", "data: 2\n\n", "data: 3\n\n", "data: 4\n\n", "data: 5\n\n"}

// Case C21 (hop-by-hop headers), http-dataplane.md sections 6 and 9.1: what concerns one connection does not cross the gateway in
// either direction, whatever protocol the client speaks; everything else does, and the whole answer with exactly one framing.
func TestC21NothingOfOneConnectionCrossesToTheOther(t *testing.T) {
	clients := []struct {
		name, proto string
		lines       []string
		framing     string // of an answer of unknown length
		again       bool   // the connection stays
	}{
		{"HTTP/1.1", "HTTP/1.1", []string{"Connection: X-Bar", "X-Bar: 1"}, "chunked", true},
		{"HTTP/1.1 that closes", "HTTP/1.1", []string{"Connection: close, X-Bar", "X-Bar: 1"}, "chunked", false},
		{"HTTP/1.1 that offers an upgrade", "HTTP/1.1", []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, "chunked", true},
		{"HTTP/1.0", "HTTP/1.0", []string{"Connection: X-Bar", "X-Bar: 1"}, "close", false},
		{"HTTP/1.0 that asks to keep the connection", "HTTP/1.0", []string{"Connection: keep-alive", "Keep-Alive: timeout=5"}, "close", false},
	}
	answers := []struct {
		name, request string
		fault         engine.Fault
		body          string
	}{
		{"a stream", chats, engine.Fault{Headers: perHop, Chunks: fiveEvents, ITLMillis: 5}, strings.Join(fiveEvents, "")},
		{"an answer with a length", chat, engine.Fault{Headers: perHop, Body: `{"a":1}`}, `{"a":1}`},
		{"an answer in chunks", chat, engine.Fault{Headers: append(engine.Headers{"Content-Type: application/json"}, perHop...), Chunks: []string{`{"a"`, `:1}`}}, `{"a":1}`},
		{"an answer that names lines twice", chat, engine.Fault{Headers: append(engine.Headers{"Connection: keep-alive , X-Bar", "x-bar: 1"}, perHop...), Body: `{"a":1}`}, `{"a":1}`},
		{"an error", chat, engine.Fault{Headers: perHop, Status: 400, Body: `{"a":1}`}, `{"a":1}`},
	}
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for _, by := range clients {
		for _, an := range answers {
			t.Run(an.name+" for "+by.name, func(t *testing.T) {
				e.ClearRequests()
				e.SetFaults(an.fault)
				c := g.dial(t)
				lines := append([]string{"TE: trailers", "Proxy-Authorization: x", "Proxy-Connection: keep-alive", "Trailer: X-T"}, by.lines...)
				r := c.ask(t, false, rawPost(by.proto, chatPath, an.request, lines...))
				require.Equal(t, max(an.fault.Status, http.StatusOK), r.Status)
				require.Equal(t, an.body, r.Body)
				// A short answer that is there as a whole may get a length instead.
				require.Contains(t, []string{by.framing, "length"}, r.Framing)
				require.Equal(t, []string{"a=1", "b=2"}, r.Head["Set-Cookie"])
				require.Equal(t, []string{"yes"}, r.Head["X-Keep"])
				for _, name := range []string{"X-Foo", "X-Bar", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Trailer", "Upgrade", "Te"} {
					require.NotContains(t, r.Head, name)
				}
				require.NotContains(t, strings.ToLower(strings.Join(r.Head["Connection"], ",")), "foo")
				requireNothingPerHop(t, e)
				if by.again {
					e.SetFaults()
					require.Equal(t, http.StatusOK, c.ask(t, false, rawPost(by.proto, chatPath, chat)).Status)
				}
			})
		}
	}
}

// C21 over HTTP/2: the same, and nothing of HTTP/1.1's framing; the connection serves on.
func TestC21NothingOfOneConnectionCrossesToTheOtherOverHTTP2(t *testing.T) {
	a := newAuthority(t)
	e := engine.Start(t, engine.Config{})
	g := startSecure(t, a, a.issue(t, "gateway"), nil, e.URL)
	client := a.secureClient(t, "h2")
	for _, tt := range []struct {
		name, request string
		fault         engine.Fault
		body          string
	}{
		{"a stream", chats, engine.Fault{Headers: perHop, Chunks: fiveEvents, ITLMillis: 5}, strings.Join(fiveEvents, "")},
		{"an answer with a length", chat, engine.Fault{Headers: perHop, Body: `{"a":1}`}, `{"a":1}`},
		{"an error", chat, engine.Fault{Headers: perHop, Status: 400, Body: `{"a":1}`}, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.ClearRequests()
			e.SetFaults(tt.fault)
			req, err := http.NewRequest(http.MethodPost, g.URL+chatPath, strings.NewReader(tt.request))
			require.NoError(t, err)
			req.Header = http.Header{"Content-Type": {"application/json"}, "Te": {"trailers"}, "Proxy-Authorization": {"x"}}
			resp, err := client.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, max(tt.fault.Status, http.StatusOK), resp.StatusCode)
			require.Equal(t, 2, resp.ProtoMajor)
			require.Equal(t, tt.body, string(body))
			require.Equal(t, []string{"a=1", "b=2"}, resp.Header["Set-Cookie"])
			require.Equal(t, []string{"yes"}, resp.Header["X-Keep"])
			for _, name := range []string{
				"X-Foo", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Trailer", "Upgrade", "Te", "Connection", "Transfer-Encoding",
			} {
				require.NotContains(t, resp.Header, name)
			}
			requireNothingPerHop(t, e)
			e.SetFaults()
			require.Equal(t, http.StatusOK, askOver(t, client, http.MethodPost, g.URL+chatPath, chat).StatusCode)
		})
	}
}

// requireNothingPerHop looks at what the engine was sent.
func requireNothingPerHop(t *testing.T, e *engine.Running) {
	t.Helper()
	require.NotEmpty(t, posts(e))
	for _, r := range posts(e) {
		for _, name := range []string{"X-Bar", "TE", "Proxy-Authorization", "Proxy-Connection", "Upgrade", "HTTP2-Settings", "Keep-Alive", "Trailer", "Connection"} {
			require.Empty(t, r.Values(name), name)
		}
		require.Len(t, append(r.Values("Content-Length"), r.Values("Transfer-Encoding")...), 1)
		require.True(t, strings.HasSuffix(r.Head[0], " HTTP/1.1"), r.Head[0])
	}
}

// C21: a name in Connection takes no header away that the gateway itself relies on, or that is none of one connection's.
func TestC21ConnectionCannotTakeAwayWhatTheGatewayNeeds(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for _, name := range []string{"Content-Type", "Content-Length", "Transfer-Encoding", "Host", "X-Request-Id", "Set-Cookie"} {
		t.Run("a client that names "+name, func(t *testing.T) {
			e.SetFaults()
			r := g.dial(t).ask(t, false, rawPost("HTTP/1.1", chatPath, chat, "Connection: "+name))
			require.Equal(t, http.StatusOK, r.Status)
			requireOneTrueFraming(t, e)
		})
		t.Run("a worker that names "+name, func(t *testing.T) {
			e.SetFaults(engine.Fault{Headers: engine.Headers{"Connection: " + name}, Body: `{"a":1}`})
			r := g.dial(t).ask(t, false, rawPost("HTTP/1.1", chatPath, chat))
			require.Equal(t, http.StatusOK, r.Status)
			require.Equal(t, `{"a":1}`, r.Body)
			require.NotEmpty(t, r.Head.Get("X-Request-Id"))
		})
	}
}

// requireOneTrueFraming: each request has one length, and it is the body's.
func requireOneTrueFraming(t *testing.T, e *engine.Running) {
	t.Helper()
	require.NotEmpty(t, posts(e))
	for _, r := range posts(e) {
		require.Equal(t, []string{strconv.Itoa(len(r.Body))}, r.Values("Content-Length"))
		require.Empty(t, r.Values("Transfer-Encoding"))
		require.Equal(t, []string{"application/json"}, r.Values("Content-Type"))
	}
}

// C21: a client that speaks HTTP/2 without having been asked is turned away, not misread.
func TestC21AnUnexpectedHTTP2PrefaceIsRefused(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	r := g.dial(t).ask(t, false, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	require.GreaterOrEqual(t, r.Status, 400)
	require.Less(t, r.Status, 600)
	require.Empty(t, posts(e))
}
