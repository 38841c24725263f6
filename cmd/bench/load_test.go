package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChatRequestIsValidJSONOfTheSizeAskedFor(t *testing.T) {
	for _, size := range []int{1 << 10, 32 << 10, 256 << 10} {
		_, body, _ := strings.Cut(chatRequest("h", 7, size, `,"stream":true`), "\r\n\r\n")
		require.Len(t, body, size)
		var chat struct {
			Model    string
			Stream   bool
			Messages []struct{ Role, Content string }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &chat))
		require.True(t, chat.Stream)
		require.Equal(t, "user", chat.Messages[0].Role)
		require.True(t, strings.HasPrefix(chat.Messages[0].Content, "Client 7. "))
	}
}

func TestChatAnswerIsValidJSON(t *testing.T) {
	require.True(t, json.Valid([]byte(chatAnswer)))
}

// The server is net/http's, which also checks that the requests are well formed.
func TestLoadCountsWhatWasAnsweredAndWhatFailed(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter, nth int64)
		fails  string // what the first failure says; empty: none may fail
		counts bool
	}{
		{"right answers count", func(w http.ResponseWriter, _ int64) { fmt.Fprint(w, "answer") }, "", true},
		{"so do chunked ones", func(w http.ResponseWriter, _ int64) {
			fmt.Fprint(w, "ans")
			_ = http.NewResponseController(w).Flush()
			fmt.Fprint(w, "wer")
		}, "", true},
		{"a connection that is given up is no failure", func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "answer")
		}, "", true},
		{"another status is a failure", func(w http.ResponseWriter, _ int64) { http.Error(w, "no", http.StatusServiceUnavailable) }, "status 503", false},
		{"a body of another length is a failure", func(w http.ResponseWriter, _ int64) { fmt.Fprint(w, "answe") }, "5 bytes", false},
		{"an answer that is cut is a failure, and the others count", func(w http.ResponseWriter, nth int64) {
			if nth == 3 {
				w.Header().Set("Content-Length", "6")
				fmt.Fprint(w, "ans")
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, "answer")
		}, "unexpected EOF", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || len(body) != 2<<10 || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				tt.answer(w, requests.Add(1))
			}))
			defer srv.Close()
			var marks []string
			l := load{addr: srv.Listener.Addr().String(), connections: 2, bytes: 2 << 10, answer: len("answer"), duration: 200 * time.Millisecond}
			m, err := l.run(t.Context(), func() { marks = append(marks, "before") }, func() { marks = append(marks, "after") })
			require.NoError(t, err)
			require.Equal(t, []string{"before", "after"}, marks)
			require.Equal(t, tt.counts, m.count > 0)
			require.Len(t, m.took, m.count)
			if tt.fails == "" {
				require.Zero(t, m.failed, "%v", m.failure)
				return
			}
			require.Positive(t, m.failed)
			require.ErrorContains(t, m.failure, tt.fails)
		})
	}
}

func TestLoadWithoutAServerFails(t *testing.T) {
	ports, err := freePorts(1)
	require.NoError(t, err)
	l := load{addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), connections: 1, duration: 50 * time.Millisecond}
	m, err := l.run(t.Context(), func() {}, func() {})
	require.NoError(t, err)
	require.Positive(t, m.failed)
	require.Zero(t, m.count)
	require.Positive(t, newSample(m, usage{}, usage{}, true).failed)
}

func TestLoadEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and never answers
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	loaded := load{addr: l.Addr().String(), connections: 2, bytes: 100, duration: time.Hour}
	_, err = loaded.run(ctx, cancel, func() {})
	require.ErrorIs(t, err, context.Canceled)
}
