package server

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// ways are the two ways of a body through the gateway: kept in memory, and passed on as it comes.
var ways = []struct {
	name      string
	configure func(*Config)
}{
	{"buffered", func(c *Config) { c.MaxBufferedRequestBytes = 64 << 20 }},
	{"streamed", func(c *Config) { c.MaxBufferedRequestBytes = 0 }},
}

// Case C22 (1) and (3), http-dataplane.md sections 3.1 and 4: a large body, and one that comes in pieces, reaches the worker as it is.
func TestC22BodiesOfAnySizeAndFramingArriveWhole(t *testing.T) {
	image := `{"model":"m1","messages":[{"role":"user","content":[{"type":"text","text":"see"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 1<<20) + `"}}]}]}`
	declared := func(body string) string { return rawPost("HTTP/1.1", chatPath, body) }
	chunked := func(size int) func(string) string {
		return func(body string) string {
			return rawHead("HTTP/1.1", chatPath, "Transfer-Encoding: chunked") + inChunks(body, size)
		}
	}
	tests := []struct {
		name, body string
		frame      func(string) string
	}{
		{"a 4 MiB image", image, declared},
		{"a 2 MiB text in chunks of 64 KiB", chatOf(2 << 20), chunked(64 << 10)},
		{"a small body in chunks of one byte", chat, chunked(1)},
		{"a small body in one chunk", chat, chunked(len(chat))},
		{"a body just above one read", chatOf(4097), declared},
		{"chunks with extensions and trailers", chat, func(body string) string {
			framed := strings.ReplaceAll(inChunks(body, 16), "10\r\n", "10;name=value\r\n")
			return rawHead("HTTP/1.1", chatPath, "Transfer-Encoding: chunked") + strings.TrimSuffix(framed, "\r\n") + "X-T: 1\r\n\r\n"
		}},
	}
	for _, way := range ways {
		e := engine.Start(t, engine.Config{})
		g := start(t, way.configure, e)
		for _, tt := range tests {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				e.ClearRequests()
				c := g.dial(t)
				r := c.ask(t, false, tt.frame(tt.body))
				require.Equal(t, http.StatusOK, r.Status)
				require.Len(t, posts(e), 1)
				require.True(t, tt.body == string(posts(e)[0].Body), "the body arrives as it was sent")
				require.Len(t, append(posts(e)[0].Values("Content-Length"), posts(e)[0].Values("Transfer-Encoding")...), 1)
				require.Equal(t, http.StatusOK, c.ask(t, false, declared(chat)).Status, "the connection goes on")
			})
		}
	}
}

// C22 (2), http-dataplane.md section 3.1: the limit itself is accepted, one byte more is 413 however the body is framed, and no worker
// has anything to do with it.
func TestC22ABodyOverTheLimitIsRefused(t *testing.T) {
	const limit = 2048
	routes := []struct{ name, path, pad string }{
		{"a chat", chatPath, chatOf(limit)},
		{"a native request", "/generate", padded(`{"text":"`, `"}`, limit)},
		{"a response", "/v1/responses", padded(`{"model":"m1","input":"`, `"}`, limit)},
		{"a message", "/v1/messages", padded(`{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"`, `"}]}`, limit)},
	}
	for _, way := range ways {
		e := engine.Start(t, engine.Config{})
		g := start(t, func(c *Config) {
			way.configure(c)
			c.MaxPayloadSize = limit
		}, e)
		for _, tt := range routes {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				chunked := rawHead("HTTP/1.1", tt.path, "Transfer-Encoding: chunked")
				require.Equal(t, http.StatusOK, g.dial(t).ask(t, false, rawPost("HTTP/1.1", tt.path, tt.pad)).Status)
				require.Equal(t, http.StatusOK, g.dial(t).ask(t, false, chunked+inChunks(tt.pad, 700)).Status)
				served := len(posts(e))
				over := tt.pad + " " // white space behind the object is part of the body
				requireTooLarge(t, g.dial(t).ask(t, false, rawPost("HTTP/1.1", tt.path, over)))
				requireTooLarge(t, g.dial(t).ask(t, false, chunked+inChunks(over, 700)))
				require.Len(t, posts(e), served, "the worker is not asked")
				require.Zero(t, g.failures())
			})
		}
		t.Run("the worker API, "+way.name, func(t *testing.T) {
			over := padded(`{"url":"http://127.0.0.1:1/`, `"}`, limit+1)
			require.Equal(t, http.StatusRequestEntityTooLarge, g.dial(t).ask(t, false, rawPost("HTTP/1.1", "/workers", over)).Status)
			chunked := rawHead("HTTP/1.1", "/workers", "Transfer-Encoding: chunked") + inChunks(over, 700)
			require.Equal(t, http.StatusRequestEntityTooLarge, g.dial(t).ask(t, false, chunked).Status)
		})
	}
}

func padded(head, tail string, size int) string {
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

func requireTooLarge(t *testing.T, r rawAnswer) {
	t.Helper()
	require.Equal(t, http.StatusRequestEntityTooLarge, r.Status)
	require.Equal(t, []string{"application/json"}, r.Head["Content-Type"])
	require.Contains(t, r.Body, `"message":`)
}

// C22 (4): a client that waits for 100 Continue gets it, and the final answer at once where no body is wanted.
func TestC22ExpectationsAreAnswered(t *testing.T) {
	for _, way := range ways {
		e := engine.Start(t, engine.Config{})
		g := start(t, func(c *Config) {
			way.configure(c)
			c.MaxPayloadSize = 4 << 20
		}, e)
		expecting := func(t *testing.T, path string, length int) (*wire, rawAnswer) {
			c := g.dial(t)
			_, err := io.WriteString(c, rawHead("HTTP/1.1", path, fmt.Sprintf("Content-Length: %d", length), "Expect: 100-continue"))
			require.NoError(t, err)
			return c, readRawHead(t, c.in)
		}
		for _, size := range []int{100, 2 << 20} {
			t.Run(fmt.Sprintf("a body of %d bytes is asked for, %s", size, way.name), func(t *testing.T) {
				e.ClearRequests()
				c, r := expecting(t, chatPath, size)
				require.Equal(t, http.StatusContinue, r.Status)
				require.Equal(t, http.StatusOK, c.ask(t, false, chatOf(size)).Status)
				require.True(t, chatOf(size) == string(posts(e)[0].Body))
				require.Empty(t, posts(e)[0].Values("Expect"))
			})
		}
		for name, refused := range map[string]struct {
			path           string
			length, status int
		}{
			"a body over the limit":  {chatPath, 5 << 20, http.StatusRequestEntityTooLarge},
			"a body for no route":    {"/v1/nothing", 100, http.StatusNotFound},
			"a body for no method":   {"/health", 100, http.StatusMethodNotAllowed},
			"a body for worker none": {"/workers/x", 100, http.StatusMethodNotAllowed},
		} {
			t.Run(name+" is refused before it is sent, "+way.name, func(t *testing.T) {
				_, r := expecting(t, refused.path, refused.length)
				require.Equal(t, refused.status, r.Status)
			})
		}
		t.Run("an expectation that nobody knows is refused, "+way.name, func(t *testing.T) {
			r := g.dial(t).ask(t, false, rawPost("HTTP/1.1", chatPath, chat, "Expect: miracles"))
			require.Equal(t, http.StatusExpectationFailed, r.Status)
		})
	}
}

// C22 (5), http-dataplane.md section 4: a client that stops in the middle of its body holds nobody else up, may go on, and is answered
// 408 if it does not; no worker is to blame.
func TestC22AStalledUploadIsTheClientsOwnAffair(t *testing.T) {
	t.Parallel() // it waits
	body := chatOf(16 << 10)
	for _, way := range ways {
		t.Run("it may go on, "+way.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			g := start(t, way.configure, e)
			c := g.dial(t)
			c.post(t, chatPath, len(body), body[:8<<10])
			require.Eventually(t, func() bool { return g.gateway.metrics.Inflight.Len() == 1 }, patience, patience/10_000)
			for range 5 {
				require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			}
			require.Equal(t, http.StatusOK, c.ask(t, false, body[8<<10:]).Status)
			require.Zero(t, g.failures())
			g.quiet(t)
		})
		t.Run("it is given up, "+way.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			g := start(t, func(c *Config) {
				way.configure(c)
				c.BodyStallTimeout = 1
			}, e)
			r := g.dial(t).ask(t, false, rawHead("HTTP/1.1", chatPath, fmt.Sprintf("Content-Length: %d", len(body)))+body[:8<<10])
			require.Equal(t, http.StatusRequestTimeout, r.Status)
			require.Equal(t, []string{"request_body_stalled"}, r.Head[http.CanonicalHeaderKey("X-SMG-Error-Code")])
			require.Contains(t, r.Body, `"code":"request_body_stalled"`)
			require.Zero(t, g.failures())
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			g.quiet(t)
		})
		for how, reset := range map[string]bool{"its connection is closed": false, "its connection is reset": true} {
			t.Run(how+", "+way.name, func(t *testing.T) {
				e := engine.Start(t, engine.Config{})
				g := start(t, way.configure, e)
				c := g.dial(t)
				c.post(t, chatPath, len(body), body[:8<<10])
				require.Eventually(t, func() bool { return g.gateway.metrics.Inflight.Len() == 1 }, patience, patience/10_000)
				c.leave(reset)
				g.quiet(t)
				require.Zero(t, g.failures())
				require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			})
		}
	}
}

// C22 (6): many large uploads at once cost about their own size in memory where they are kept, and next to nothing where they are
// passed on.
func TestC22ManyUploadsCostNoMoreThanTheirSize(t *testing.T) {
	const uploads, size = 8, 2 << 20
	limits := map[string]int64{"buffered": 3 * uploads * size, "streamed": uploads * size / 2}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			var arrived sync.WaitGroup
			arrived.Add(uploads)
			release := make(chan struct{})
			w := startHTTPWorker(t, workerPlan{Post: func(w *postWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				arrived.Done()
				<-release
				_, _ = fmt.Fprint(w, n)
			}})
			g := start(t, func(c *Config) {
				way.configure(c)
				c.WorkerURLs = []string{w.URL}
			})
			g.serving(t, 1)
			before := liveBytes()
			got := make(chan string, uploads)
			for range uploads {
				go func() { got <- upload(g, size) }()
			}
			arrived.Wait()
			grown := liveBytes() - before
			close(release)
			for range uploads {
				require.Equal(t, fmt.Sprint(size), <-got)
			}
			require.Less(t, grown, limits[way.name])
		})
	}
}

// upload sends a chat of size bytes that is never in memory as a whole, and returns the answer.
func upload(g *running, size int) string {
	const head, tail = `{"model":"m1","messages":[{"role":"user","content":"`, `"}]}`
	body := io.MultiReader(strings.NewReader(head), io.LimitReader(letters{}, int64(size-len(head)-len(tail))), strings.NewReader(tail))
	req, err := http.NewRequest(http.MethodPost, g.URL+chatPath, body)
	if err != nil {
		return err.Error()
	}
	req.ContentLength = int64(size)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return string(answer)
}

// letters is an endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // what the pools held is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
