package server

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Case C39 (keep-alive race), http-dataplane.md section 8: a worker that closes a connection just when a request goes out on it has
// done nothing wrong, and the client hears nothing of it: the request goes once more, on a fresh connection.
func TestC39AConnectionThatGoesStaleCostsNothing(t *testing.T) {
	tests := []struct {
		name string
		plan workerPlan
	}{
		{"closed when the head of its second request is in", workerPlan{Post: func(w *postWriter, r *http.Request) {
			if w.Nth > 1 {
				w.hangUp()
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, chatAnswer)
		}}},
		{"closed when its second request is in", workerPlan{Post: func(w *postWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if w.Nth > 1 {
				w.hangUp()
				return
			}
			_, _ = io.WriteString(w, chatAnswer)
		}}},
		{"closed behind every answer without a word", workerPlan{Post: func(w *postWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.answerAndHangUp()
		}}},
		{"closed after 50 µs without a request", workerPlan{Idle: 50 * time.Microsecond}},
		{"closed after 300 µs without a request", workerPlan{Idle: 300 * time.Microsecond}},
		{"closed after 2 ms without a request", workerPlan{Idle: 2 * time.Millisecond}},
	}
	for _, tt := range tests {
		for _, retries := range []bool{true, false} {
			for _, body := range []string{chat, chats} {
				t.Run(fmt.Sprintf("%s, retries %v, stream %v", tt.name, retries, body == chats), func(t *testing.T) {
					w := startHTTPWorker(t, tt.plan)
					g := start(t, func(c *Config) { c.WorkerURLs, c.DisableRetries = []string{w.URL}, !retries })
					g.serving(t, 1)
					g.askMany(t, 4, 10, body)
					tries := w.tries()
					require.Len(t, tries, 40)
					for id, n := range tries {
						require.LessOrEqual(t, n, 2, id)
					}
					require.Zero(t, g.failures())
					g.quiet(t)
				})
			}
		}
	}
}

// askMany has clients ask one after another, all of them at once, each with ids of its own; all are answered.
func (g *running) askMany(t *testing.T, clients, each int, body string) {
	t.Helper()
	var wg sync.WaitGroup
	var failed atomic.Pointer[string]
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if r := g.post(t, chatPath, body, "X-Request-ID", fmt.Sprintf("k%d-%d", c, i)); r.StatusCode != http.StatusOK || r.Err != nil {
					said := fmt.Sprint(r.StatusCode, r.Body, r.Err)
					failed.Store(&said)
				}
			}
		})
	}
	wg.Wait()
	if said := failed.Load(); said != nil {
		t.Fatal(*said)
	}
}

// C39: the second try is on a fresh connection, however many stale ones there are.
func TestC39ASecondTryTakesNoOtherStaleConnection(t *testing.T) {
	const held = 8
	var together sync.WaitGroup
	together.Add(held)
	w := startHTTPWorker(t, workerPlan{Post: func(w *postWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case w.Nth > 1:
			w.hangUp()
			return
		case r.Header.Get("X-Request-Id")[0] == 'k': // not before all of them have a connection
			together.Done()
			together.Wait()
		}
		_, _ = io.WriteString(w, chatAnswer)
	}})
	g := start(t, func(c *Config) { c.WorkerURLs, c.DisableRetries = []string{w.URL}, true })
	g.serving(t, 1)
	g.askMany(t, held, 1, chat)
	for i := range held {
		id := fmt.Sprint("late", i)
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, "X-Request-ID", id).StatusCode)
		require.LessOrEqual(t, w.tries()[id], 2)
	}
	require.Zero(t, g.failures())
}

// C39, counter-check: a worker that takes a request and closes without an answer is asked once more at most, never twice at once, and
// then the failure is shown and counted.
func TestC39AWorkerThatTakesRequestsAndHangsUpFails(t *testing.T) {
	tests := []struct {
		name, body string
		buffered   int64 // bytes
		most       int
	}{
		{"a small request", chat, 1 << 20, 2},
		{"a small streamed request", chats, 1 << 20, 2},
		{"a request of a megabyte, which is not sent twice", chatOf(1 << 20), 2 << 20, 1},
		{"a request whose body would be passed on as it comes", chat, 0, 2},
		{"a request whose body is passed on as it comes, which cannot be sent twice", chatOf(128 << 10), 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var now, most atomic.Int32
			answer := atomic.Bool{}
			answer.Store(true)
			w := startHTTPWorker(t, workerPlan{Post: func(w *postWriter, r *http.Request) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				now.Add(-1) // before the gateway hears of it
				if answer.Load() {
					_, _ = io.WriteString(w, chatAnswer)
					return
				}
				w.hangUp()
			}})
			g := start(t, func(c *Config) {
				c.WorkerURLs, c.RetryMaxRetries, c.MaxBufferedRequestBytes = []string{w.URL}, 1, tt.buffered
			})
			g.serving(t, 1)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode) // so that there is a connection to be used again
			answer.Store(false)
			r := g.post(t, chatPath, tt.body, "X-Request-ID", "counter")
			requireJSONError(t, r, http.StatusBadGateway, "call_upstream_request_error")
			require.LessOrEqual(t, w.tries()["counter"], tt.most)
			require.EqualValues(t, 1, most.Load())
			require.EqualValues(t, 1, g.failures())
		})
	}
}

// C39: what has answered in part has been heard; nothing is sent again.
func TestC39NothingIsSentAgainOnceAnAnswerHasBegun(t *testing.T) {
	for name, begun := range map[string]string{
		"a byte": "H", "half a head": "HTTP/1.1 200 OK\r\nContent-", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			w := startHTTPWorker(t, workerPlan{Post: func(w *postWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if w.Nth == 1 {
					_, _ = io.WriteString(w, chatAnswer)
					return
				}
				conn, _, err := w.ResponseWriter.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, begun)
					_ = conn.Close()
				}
			}})
			g := start(t, func(c *Config) { c.WorkerURLs, c.DisableRetries = []string{w.URL}, true })
			g.serving(t, 1)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat, "X-Request-ID", "first").StatusCode)
			require.Equal(t, http.StatusBadGateway, g.post(t, chatPath, chat, "X-Request-ID", "second").StatusCode)
			require.Equal(t, 1, w.tries()["second"])
		})
	}
}
