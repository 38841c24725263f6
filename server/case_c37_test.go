package server

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// impatient has every limit at its least but the one of an attempt. What takes a few seconds then outlasts all of them.
func impatient(c *Config) {
	c.HeaderReadTimeout, c.IdleConnectionTimeout, c.UpstreamIdleTimeout = 1, 1, 1
	c.HealthCheckTimeout, c.HealthCheckInterval, c.StartupTimeout = 1, 1, 1
	c.CBTimeout, c.CBWindow, c.DrainSettle = 1, 1, 1
	c.RetryMaxRetries = 1
}

// event is an event of a stream.
const event = "data: {\"i\":1}\n\n"

// beyond is how many probes of a worker are longer than any limit of impatient.
const beyond = 2

// Case C37, http-dataplane.md sections 8 and 9.3: nothing but --request-timeout-secs bounds an attempt. Time passes by probes.
func TestC37NothingButTheRequestTimeoutCutsALongRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		body string
		play func(t *testing.T, p *puppet, a *act)
		want string
	}{
		{"a stream that begins late", chats, func(t *testing.T, p *puppet, a *act) {
			p.wait(t, a)
			a.stream()
			a.chunk(event)
			a.done()
		}, event},
		{"a stream that is slow", chats, func(t *testing.T, p *puppet, a *act) {
			a.stream()
			a.chunk(event)
			p.wait(t, a)
			a.chunk(event)
			a.done()
		}, event + event},
		{"a stream without an event", chats, func(t *testing.T, p *puppet, a *act) {
			a.stream()
			p.wait(t, a)
			a.done()
		}, ""},
		{"an answer that comes late", chat, func(t *testing.T, p *puppet, a *act) {
			p.wait(t, a)
			a.answer(`{"id":"W1-1"}`)
		}, `{"id":"W1-1"}`},
		{"an answer that is slow", chat, func(t *testing.T, p *puppet, a *act) {
			a.head("200 OK", "Content-Type: application/json", "Content-Length: 13")
			a.write(`{"id":`)
			p.wait(t, a)
			a.write(`"W1-1"}`)
		}, `{"id":"W1-1"}`},
	}
	var p *puppet
	p = startPuppet(t, func(a *act) {
		i, _ := strconv.Atoi(a.Header.Get("X-Request-Id"))
		tests[i].play(t, p, a)
	})
	g := startPuppets(t, impatient, p)
	clients := make([]*wire, len(tests))
	for i, tt := range tests { // all at once: they wait for time to pass
		clients[i] = g.dial(t)
		clients[i].post(t, chatPath, len(tt.body), tt.body, fmt.Sprintf("X-Request-Id: %d", i))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := clients[i].whole()
			require.NoError(t, r.Err)
			require.Equal(t, http.StatusOK, r.StatusCode)
			require.Equal(t, tt.want, r.Body)
		})
	}
	require.EqualValues(t, len(tests), p.posts.Load())
}

// wait lets time pass in a worker's answer.
func (p *puppet) wait(t *testing.T, a *act) {
	for range beyond {
		select {
		case <-a.gone:
			t.Error("the gateway has given up")
			return
		case <-p.nextProbe():
		}
	}
}

// C37: a client may take its time with a body, as long as it goes on sending; whether it is read or streamed.
func TestC37AnUploadMayTakeLong(t *testing.T) {
	t.Parallel()
	w := startPuppet(t, func(a *act) { a.answer(fmt.Sprintf(`{"got":%d}`, len(a.Sent))) })
	read := startPuppets(t, impatient, w)
	streamed := startPuppets(t, func(c *Config) { impatient(c); c.MaxBufferedRequestBytes, c.RetryMaxRetries = 1, 2 }, w)
	body := chat + strings.Repeat(" ", 100_000)
	clients := []*wire{read.dial(t), streamed.dial(t)}
	for _, c := range clients {
		c.post(t, chatPath, len(body), body[:10])
	}
	w.probed(t, 2*beyond) // by two gateways
	for _, c := range clients {
		_, err := io.WriteString(c, body[10:])
		require.NoError(t, err)
		r := c.whole()
		require.NoError(t, r.Err)
		require.Equal(t, fmt.Sprintf(`{"got":%d}`, len(body)), r.Body)
	}
}

// C37: a client's idle connection is closed without a word, or serves again; never anything in between.
func TestC37AnIdleConnectionIsClosedCleanlyOrServes(t *testing.T) {
	t.Parallel()
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		g := startPuppets(t, impatient, startPuppet(t, func(a *act) { a.answer(`{}`) }))
		c := g.dial(t)
		c.post(t, chatPath, len(chat), chat)
		require.Equal(t, http.StatusOK, c.whole().StatusCode)
		n, err := c.Read(make([]byte, 1))
		require.Zero(t, n)
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		w := startPuppet(t, func(a *act) { a.answer(`{}`) })
		g := startPuppets(t, func(c *Config) { impatient(c); c.IdleConnectionTimeout = 0 }, w)
		c := g.dial(t)
		c.post(t, chatPath, len(chat), chat)
		require.Equal(t, http.StatusOK, c.whole().StatusCode)
		w.probed(t, beyond)
		c.post(t, chatPath, len(chat), chat)
		require.Equal(t, http.StatusOK, c.whole().StatusCode)
	})
}

// C37, DECISIONS.md rows 5, 31 and 33: the request timeout is seen for what it is. A silent worker is a 504; a stream is cut, with an
// error event if it stands between two events.
func TestC37TheRequestTimeoutIsVisible(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		body   string
		play   func(a *act)
		none   bool   // there was no head yet
		begins string // of a stream; what it ends with is an error event
		torn   bool   // the stream is cut within an event, where no error event fits
		more   bool   // there are many of what it begins with
	}{
		{name: "a silent worker", body: chat, play: func(*act) {}, none: true},
		{name: "a silent worker, a stream was asked for", body: chats, play: func(*act) {}, none: true},
		{name: "a stream that has not begun", body: chats, play: func(a *act) { a.stream() }},
		{name: "a stream that falls silent", body: chats, play: func(a *act) { a.stream(); a.chunk(event) }, begins: event},
		{
			name: "a stream that falls silent within an event", body: chats,
			play: func(a *act) { a.stream(); a.chunk(event); a.chunk("data: {") }, begins: event, torn: true,
		},
		{name: "a stream that goes on and on", body: chats, play: (*act).goOn, begins: event, more: true},
	}
	w := startPuppet(t, func(a *act) {
		i, _ := strconv.Atoi(a.Header.Get("X-Request-Id"))
		tests[i].play(a)
		<-a.gone
	})
	g := startPuppets(t, func(c *Config) { c.RequestTimeout, c.CBFailureThreshold = 2, 1000 }, w)
	clients := make([]*wire, len(tests))
	for i, tt := range tests {
		clients[i] = g.dial(t)
		clients[i].post(t, chatPath, len(tt.body), tt.body, fmt.Sprintf("X-Request-Id: %d", i))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := clients[i].whole()
			if tt.none {
				requireJSONError(t, r, http.StatusGatewayTimeout, "call_upstream_timeout")
				return
			}
			require.Equal(t, http.StatusOK, r.StatusCode)
			require.ErrorIs(t, r.Err, io.ErrUnexpectedEOF, "no final chunk")
			require.NotContains(t, r.Body, "[DONE]")
			rest, begun := strings.CutPrefix(r.Body, tt.begins)
			require.True(t, begun, r.Body)
			if tt.more {
				require.True(t, strings.HasPrefix(rest, tt.begins), r.Body)
				rest = strings.ReplaceAll(rest, tt.begins, "")
			}
			if tt.torn {
				require.Equal(t, "data: {", rest)
			} else {
				require.Regexp(t, `^data: \{"error":\{.*\}\}\n\n$`, rest)
			}
		})
	}
	g.quiet(t)
}

// goOn streams twenty events a second until the peer has had enough.
func (a *act) goOn() {
	a.stream()
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	for {
		a.chunk(event)
		select {
		case <-a.gone:
			return
		case <-next.C:
		}
	}
}

// C37: limits that nobody has set are those of the command line, and the web server has none of its own.
func TestC37TheDefaultsHideNoTimeout(t *testing.T) {
	w := startPuppet(t, func(a *act) { a.answer(`{}`) })
	g := startPuppets(t, nil, w)
	require.Zero(t, g.front.WriteTimeout, "a limit of whole answers")
	require.Zero(t, g.front.ReadTimeout, "a limit of whole requests")
	require.Equal(t, 1800*time.Second, g.worker(t, w.URL).Settings().HTTPPool.RequestTimeout)
}
