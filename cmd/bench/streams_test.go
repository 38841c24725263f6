package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startTestEngine serves the streaming engine until the test is over.
func startTestEngine(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serveEngine(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return l.Addr().String()
}

func TestStreamsAreMeasuredAndReadToTheirEnd(t *testing.T) {
	s := &streams{addr: startTestEngine(t), count: 8, duration: 300 * time.Millisecond}
	m, err := s.run(t.Context(), func() {}, func() {})
	require.NoError(t, err)
	require.Zero(t, m.failed, "%v", m.failure)
	require.Positive(t, m.count)
	require.Len(t, m.took, m.count)
	require.Positive(t, m.elapsed)
}

func TestStreamThatIsNotWholeIsAFailure(t *testing.T) {
	event := func(stamp int64) string { return fmt.Sprintf("data: {%s%019d\"}\n\n", stampPrefix, stamp) }
	tests := []struct{ name, body, says string }{
		{"all events and the end are there", event(1) + ": a comment\n\n" + event(2) + "data: [DONE]\n\n", ""},
		{"an event is missing", event(1) + "data: [DONE]\n\n", "after 1 of 2 events"},
		{"there is one too many", event(1) + event(2) + event(3) + "data: [DONE]\n\n", "after 3 of 2 events"},
		{"the end is missing", event(1) + event(2), "[DONE] seen: false"},
		{"an event has lost its stamp", event(1) + "data: {}\n\ndata: [DONE]\n\n", "after 1 of 2 events"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.body) }))
			defer srv.Close()
			err := readStream(t.Context(), srv.Listener.Addr().String(), 0, 2, time.Now().Add(time.Minute), func(time.Duration) {})
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestEngineAnswersWhatGatewaysAsk(t *testing.T) {
	addr := startTestEngine(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path := range answers {
		res, err := client.Get("http://" + addr + path)
		require.NoError(t, err, path)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, path)
	}
	res, err := client.Get("http://" + addr + "/other")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
}

// FuzzEventScanner checks that events are found wherever the network cuts a stream.
func FuzzEventScanner(f *testing.F) {
	chunk, stamp := eventChunk()
	copy(stamp, "1700000000000000000")
	f.Add(chunk, 7)
	f.Add([]byte("data: [DONE]\n\n"), 13)
	f.Add([]byte(`"id":"chatcmpl-1`+"\n\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		whole := eventScanner{event: func(time.Duration) {}}
		whole.write(text)
		if cut < 0 || cut > len(text) {
			return
		}
		parts := eventScanner{event: func(time.Duration) {}}
		parts.write(text[:cut])
		parts.write(text[cut:])
		if whole.events != parts.events || whole.done != parts.done {
			t.Fatalf("whole: %d %t, cut at %d: %d %t", whole.events, whole.done, cut, parts.events, parts.done)
		}
	})
}
