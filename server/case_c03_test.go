package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Case C03, http-dataplane.md section 9.3: no buffer bounds the length of an event, because nothing reads by events. The small event
// in front of a large one does not wait for it.
func TestC03AnEventOfAnyLengthArrivesWhole(t *testing.T) {
	const small = "data: {\"choices\":[{\"delta\":{\"content\":\"s\"}}]}\n\n"
	lengths := []int{4 << 10, 65_530, 65_540, 1_048_600, 8<<20 + 1}
	tests := []struct {
		name string
		path string
		body string
		send func(a *act, s string) // how the worker puts a part of the stream on the wire
		head []string
	}{
		{
			"in one chunk", chatPath, chats,
			func(a *act, s string) { a.chunk(s) },
			[]string{"Transfer-Encoding: chunked"},
		},
		{
			"in chunks that know nothing of events", "/generate", `{"text":"hi","stream":true,"return_logprob":true}`,
			func(a *act, s string) {
				for ; len(s) > 10_007; s = s[10_007:] {
					a.chunk(s[:10_007])
				}
				a.chunk(s)
			},
			[]string{"Transfer-Encoding: chunked"},
		},
		{
			"up to the end of the connection", chatPath, chats,
			func(a *act, s string) { a.write(s) },
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			event := make(chan string, 1)
			seen := make(chan struct{}, 1) // the client has the first event
			w := startPuppet(t, func(a *act) {
				a.head("200 OK", append(tt.head, "Content-Type: text/event-stream")...)
				tt.send(a, small)
				select {
				case <-seen:
				case <-a.gone:
					return
				}
				tt.send(a, <-event+small+"data: [DONE]\n\n")
				if tt.head != nil {
					a.done()
				}
			})
			g := startPuppets(t, nil, w)
			for _, n := range lengths {
				large := largeEvent(n)
				event <- large
				c := g.dial(t)
				c.post(t, tt.path, len(tt.body), tt.body)
				resp := c.read(t)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				first := make([]byte, len(small))
				_, err := io.ReadFull(resp.Body, first)
				require.NoError(t, err)
				require.Equal(t, small, string(first))
				seen <- struct{}{}

				rest, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				whole := string(rest) == large+small+"data: [DONE]\n\n" // else a failure would print megabytes
				require.True(t, whole, "an event of %d bytes is not what the worker wrote", n)
			}
			g.quiet(t)
			require.NotContains(t, g.Log.String(), "ERROR")
			require.Zero(t, g.failures())
		})
	}
}

// largeEvent is an event whose data line has n bytes.
func largeEvent(n int) string {
	const head, tail = "data: {\"choices\":[{\"delta\":{\"content\":\"", "\"}}]}"
	const pattern = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY" // 61 bytes: no buffer's length is a multiple of it
	content := n - len(head) - len(tail)
	return head + strings.Repeat(pattern, content/len(pattern)+1)[:content] + tail + "\n\n"
}
