package forward

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// http-dataplane.md, section 9.3: the head goes out before the first event, and each event before the next one is made.
func TestAStreamIsRelayedAsItComes(t *testing.T) {
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s, say := scripted(t)
		r := newTrip(t, s, rt, func(r *trip) { r.x.Body.Stream, r.settings.Keepalive = true, time.Hour })
		wait := r.start()
		say <- chunkedSSE
		require.Eventually(t, func() bool { return len(r.pieces()) == 1 }, waiting, time.Millisecond)
		require.Empty(t, r.got(), "the head alone")
		say <- chunk(event1)
		r.await(event1)
		require.EqualValues(t, 1, r.worker.InFlight())
		say <- chunk("data: {\"b\"")
		r.await(event1 + "data: {\"b\"")
		say <- chunk(":2}\n\n") + chunk(done)
		r.await(event1 + event2 + done)
		say <- "0\r\n\r\n"
		close(say)
		wait()
		require.NoError(t, r.err)
		require.Equal(t, 200, r.status)
		require.EqualValues(t, -1, r.length)
		require.Equal(t, []string{"head 200", "first byte"}, r.moments, "each once")
		require.Equal(t, pipeline.Answered, r.leg.Outcome)
		require.True(t, r.leg.Streamed)
		require.False(t, r.leg.FirstEvent.Before(r.leg.Sent))
		require.Equal(t, event1+event2+done, r.got(), "nothing is added")
	})
}

// http-dataplane.md, section 9.3: one flush for what one read from the worker has brought, however many chunks it is in.
func TestAReadIsFlushedOnce(t *testing.T) {
	s, say := scripted(t)
	r := newTrip(t, s, testTransport(t), nil)
	wait := r.start()
	say <- chunkedSSE + chunk(event1) + chunk(event2)
	r.await(event1 + event2)
	require.Equal(t, []string{event1 + event2}, r.pieces(), "with the head")
	say <- chunk(event1) + chunk(done) + "0\r\n\r\n"
	close(say)
	wait()
	require.Len(t, r.pieces(), 1, "the end of the chain sends what comes with the end of the answer")
	require.Equal(t, event1+event2+event1+done, r.got())
}

// case C01; http-dataplane.md, section 9.3: no dialect is changed, nor where it is torn.
func TestEveryDialectPassesUnchanged(t *testing.T) {
	dialects := map[string]string{
		"CR LF":        "data: {}\r\n\r\ndata: [DONE]\r\n\r\n",
		"CR":           "data: {}\r\rdata: [DONE]\r\r",
		"no space":     "data:{}\n\ndata:[DONE]\n\n",
		"comments":     ": ping\n\nevent: a\nid: 1\nretry: 5\ndata: {}\n\n",
		"two lines":    "data: {\ndata: }\n\n",
		"a terminator": "data: {\"c\":\"\\n\\ndata: [DONE]\\n\\n\"}\n\n",
		"no end":       "data: {}\n\ndata: {\"half",
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for name, text := range dialects {
			for _, width := range []int{1, 7, len(text)} {
				var pieces []string
				for rest := text; rest != ""; {
					n := min(width, len(rest))
					pieces, rest = append(pieces, rest[:n]), rest[n:]
				}
				s := listen(t, answers(chunkedAnswer(streamHead, pieces...)))
				r := newTrip(t, s, rt, func(r *trip) { r.settings.Keepalive = time.Hour }).run()
				require.NoError(t, r.err)
				require.Equal(t, text, r.got(), name)
			}
		}
	})
}

// http-dataplane.md, sections 4 and 9.3: what becomes of an answer, by what was asked for and what came.
func TestWhatIsAStream(t *testing.T) {
	tests := []struct {
		name, head string
		asked      bool
		streamed   bool
		kind       []string // content type that the client gets
		length     int64
	}{
		{"events, asked for", "200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n", true, true, []string{"text/event-stream; charset=utf-8"}, -1},
		{"events, not asked for", "200 OK\r\nContent-Type: Text/Event-Stream\r\n", false, true, []string{"Text/Event-Stream"}, -1},
		{"no type, asked for", "200 OK\r\n", true, true, []string{"text/event-stream"}, -1},
		{"no type, not asked for", "200 OK\r\n", false, false, nil, 4},
		{"JSON, asked for as a stream", "200 OK\r\nContent-Type: application/json\r\n", true, false, []string{"application/json"}, 4},
		{"an error in JSON", "400 No\r\nContent-Type: application/json\r\n", true, false, []string{"application/json"}, 4},
		{"an error without a type", "500 No\r\n", true, false, nil, 4},
		{"an error in events", "500 No\r\nContent-Type: text/event-stream\r\n", true, true, []string{"text/event-stream"}, -1},
		{"events in another coding", "200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\n", true, true, []string{"text/event-stream"}, 4},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			s := listen(t, answers("HTTP/1.1 "+tt.head+"Content-Length: 4\r\n\r\n{}\n\n"))
			r := newTrip(t, s, rt, func(r *trip) { r.x.Body.Stream = tt.asked }).run()
			require.NoError(t, r.err, tt.name)
			require.Equal(t, tt.streamed, r.leg.Streamed, tt.name)
			require.Equal(t, tt.kind, r.all("Content-Type"), tt.name)
			require.Equal(t, tt.length, r.length, tt.name)
			require.Equal(t, "{}\n\n", r.got(), tt.name)
			require.Equal(t, pipeline.Answered, r.leg.Outcome, tt.name)
		}
	})
	t.Run("204 has no type", func(t *testing.T) {
		s := listen(t, answers("HTTP/1.1 204 No Content\r\n\r\n"))
		r := newTrip(t, s, testTransport(t), func(r *trip) { r.x.Body.Stream = true }).run()
		require.NoError(t, r.err)
		require.Empty(t, r.all("Content-Type"))
		require.Empty(t, r.got())
	})
}

// DECISIONS.md row 33; http-dataplane.md, section 9.3: what had come arrives; then an error event, if it fits, and a cut.
func TestAStreamThatBreaks(t *testing.T) {
	const (
		openAI    = `data: {"error":{"message":"The worker's answer broke off","type":"server_error","param":null,"code":"stream_error"}}` + "\n\n"
		anthropic = "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"The worker's answer broke off"},"request_id":"req-1"}` + "\n\n"
	)
	cut := func(texts ...string) string {
		raw := chunkedSSE
		for _, text := range texts {
			raw += chunk(text)
		}
		return raw
	}
	tests := []struct {
		name, raw string
		dialect   Dialect
		want      string // behind what had come
		came      string
	}{
		{"behind an event", cut(event1), Dialect{}, openAI, event1},
		{"behind an event, for an Anthropic client", cut(event1), AnthropicStream, anthropic, event1},
		{"behind an event that ends with CR LF", cut("data: 1\r\n\r\n"), Dialect{}, openAI, "data: 1\r\n\r\n"},
		{"behind an event that ends with CR", cut("data: 1\r\r"), Dialect{}, openAI, "data: 1\r\r"},
		{"behind the head", cut(), Dialect{}, openAI, ""},
		{"behind what looks like the end", cut(done), Dialect{}, openAI, done},
		{"within an event", cut(event1, "data: {"), Dialect{}, "", event1 + "data: {"},
		{"between the lines of an event", cut("event: a\n"), Dialect{}, "", "event: a\n"},
		{"within a line end", cut("data: 1\r\n\r"), Dialect{}, "", "data: 1\r\n\r"},
		{"within a chunk", cut(event1) + "9\r\nda", Dialect{}, "", event1 + "da"},
		{"in a chunk that is none", cut(event1) + "zz\r\n", Dialect{}, openAI, event1},
		{"in a body of a declared length", streamHead + "Content-Length: 99\r\n\r\n" + event1, Dialect{}, openAI, event1},
		{"in another coding", streamHead + "Content-Encoding: gzip\r\nContent-Length: 99\r\n\r\n", Dialect{}, "", ""},
		{"in an answer that is no event stream", okHead + "Content-Type: text/plain\r\nContent-Length: 9\r\n\r\na\n\n", Dialect{}, "", "a\n\n"},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := listen(t, once(tt.raw))
				r := newTrip(t, s, rt, func(r *trip) {
					r.x.Body.Stream, r.settings.Dialect, r.settings.Keepalive = true, tt.dialect, time.Hour
				}).run()
				require.Equal(t, "stream_error", r.code())
				require.True(t, pipeline.AsError(r.err).Terminal)
				require.True(t, r.aborted, "never a clean end")
				require.Equal(t, tt.came+tt.want, r.got())
				require.Equal(t, pipeline.Broken, r.leg.Outcome)
				require.Equal(t, 200, r.leg.Status)
				require.EqualValues(t, 1, s.accepted.Load(), "never a second attempt")
			})
		}
	})
}

// DECISIONS.md rows 5, 33 and 34: the request time-out cuts a stream visibly, pings or not.
func TestAStreamThatTakesTooLong(t *testing.T) {
	const late = `data: {"error":{"message":"The worker's answer took longer than the gateway allows","type":"server_error","param":null,"code":"stream_error"}}` + "\n\n"
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		for _, keepalive := range []time.Duration{0, time.Hour, time.Millisecond} {
			for _, text := range []string{event1, event1 + "data: {"} {
				s := listen(t, silent(chunkedSSE+chunk(text)))
				r := newTrip(t, s, rt, func(r *trip) {
					r.settings.Keepalive, r.limits.RequestTimeout = keepalive, 100*time.Millisecond
				}).run()
				require.Equal(t, "stream_error", r.code())
				require.True(t, r.aborted)
				require.Equal(t, pipeline.TimedOut, r.leg.Outcome)
				require.Equal(t, 200, r.leg.Status)
				got := strings.ReplaceAll(r.got(), string(OpenAIStream.Ping), "")
				if text == event1 {
					text += late
				}
				require.Equal(t, text, got)
			}
		}
	})
}

// http-dataplane.md, section 9.3: towards a client that does not read, the worker is not read either.
func TestASlowClientHoldsItsWorkerBack(t *testing.T) {
	const size = 64 << 20 // far more than the sockets between take
	want := sha256.New()
	stuck := make(chan int, 1)
	s := listen(t, func(p *peer) {
		if r, _ := p.request(); r == nil {
			return
		}
		_, _ = io.WriteString(p, streamHead+"\r\n")
		block := []byte(strings.Repeat("data: 0123456789\n\n", 1000))
		for sent := 0; sent < size; {
			_ = p.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := p.Write(block)
			want.Write(block[:n])
			sent += n
			if errors.Is(err, os.ErrDeadlineExceeded) {
				stuck <- sent
				return
			}
		}
		stuck <- size
	})
	got := sha256.New()
	var sent int
	r := newTrip(t, s, testTransport(t), func(r *trip) {
		first := true
		r.onWrite = func(c *caller, p []byte) error {
			if first {
				sent, first = <-stuck, false
			}
			got.Write(p)
			c.mu.Lock()
			c.pending = "" // it has read
			c.mu.Unlock()
			return nil
		}
	}).run()
	require.NoError(t, r.err)
	require.Less(t, sent, size, "it was held back")
	require.Equal(t, want.Sum(nil), got.Sum(nil), "and nothing is lost")
}

// telemetry: the tokens of a stream are read off its end, as each kind of engine says them.
func TestUsageOfStreams(t *testing.T) {
	tests := []struct {
		name, text string
		want       pipeline.Usage
	}{
		{"OpenAI", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":12,\"completion_tokens\":5}}\n\n" + done, pipeline.Usage{InputTokens: 7, OutputTokens: 5}},
		{"Anthropic", "event: message_delta\ndata: {\"usage\":{\"input_tokens\":3,\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", pipeline.Usage{InputTokens: 3, OutputTokens: 15}},
		{"SGLang", "data: {\"text\":\"a\",\"meta_info\":{\"prompt_tokens\":4,\"completion_tokens\":2,\"cached_tokens\":1}}\n\n" + done, pipeline.Usage{InputTokens: 4, OutputTokens: 2}},
		{"none", event1 + done, pipeline.Usage{}},
	}
	for _, tt := range tests {
		for _, before := range []int{0, 100} {
			texts := append([]string{strings.Repeat(event1, before)}, strings.SplitAfter(tt.text, ":")...)
			if before == 0 {
				texts = texts[1:]
			}
			texts = deleteEmpty(texts)
			r := newTrip(t, listen(t, answers(chunkedAnswer(streamHead, texts...))), testTransport(t), nil).run()
			require.NoError(t, r.err)
			require.Equal(t, tt.want, r.leg.Usage, "%s behind %d events", tt.name, before)
		}
	}
}

func deleteEmpty(texts []string) (rest []string) {
	for _, text := range texts {
		if text != "" {
			rest = append(rest, text)
		}
	}
	return rest
}

// DECISIONS.md row 26: errors as clients of /v1/messages know them.
func TestTheAnthropicForm(t *testing.T) {
	kinds := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 408: "invalid_request_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "api_error",
	}
	for status, kind := range kinds {
		contentType, body := AnthropicForm(&pipeline.Error{Status: status, Message: `no "x"`}, "req-1")
		require.Equal(t, "application/json", contentType)
		require.JSONEq(t, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"no \"x\""},"request_id":"req-1"}`, kind), string(body))
	}
}
