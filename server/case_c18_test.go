package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C18 (the client's Host), http-dataplane.md section 6: a worker is addressed by its own name, once, whatever name the client
// has for the gateway; and no forwarded-for relative of the client's Host reaches it.
func TestC18AWorkerSeesItsOwnHostAlone(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	own := "localhost:" + port
	g := start(t, func(c *Config) {
		c.WorkerURLs, c.MaxBufferedRequestBytes = []string{"http://" + own}, 512
	})
	g.serving(t, 1)
	large := chatOf(1 << 10) // more than is buffered
	requests := []struct{ name, method, path, body string }{
		{"a chat", "POST", chatPath, chat},
		{"a streamed chat", "POST", chatPath, chats},
		{"a chat that is streamed on its way in", "POST", chatPath, large},
		{"a completion", "POST", "/v1/completions", `{"model":"m1","prompt":"hi"}`},
		{"a native request", "POST", "/generate", `{"text":"hi"}`},
		{"embeddings", "POST", "/v1/embeddings", `{"model":"m1","input":"hi"}`},
		{"a message", "POST", "/v1/messages", `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{"a response", "POST", "/v1/responses", `{"model":"m1","input":"hi"}`},
		{"a rerank", "POST", "/v1/rerank", `{"model":"m1","query":"q","documents":["a"]}`},
		{"the list of models", "GET", "/v1/models", ""},
		{"a proxied question", "GET", "/get_server_info", ""},
		{"a proxied probe", "GET", "/health_generate", ""},
		{"a scrape", "GET", "/engine_metrics", ""},
	}
	targets := []struct{ name, target, host string }{
		{"with another Host", "", "gw.example.com"},
		{"with a Host and a port", "", "gw.example.com:8443"},
		{"with an empty Host", "", ""},
		{"with the whole URL as its target", "http://gw.example.com", "other.example.com"},
	}
	for _, rq := range requests {
		for _, to := range targets {
			t.Run(rq.name+" "+to.name, func(t *testing.T) {
				c := g.dial(t)
				_, err := fmt.Fprintf(c, "%s %s%s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-Host: gw.example.com\r\nForwarded: host=gw.example.com\r\n"+
					"X-Original-Host: gw.example.com\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
					rq.method, to.target, rq.path, to.host, len(rq.body), rq.body)
				require.NoError(t, err)
				resp := c.read(t)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
			})
		}
	}
	require.GreaterOrEqual(t, len(posts(e)), 9*len(targets))
	for _, r := range e.Requests() { // probes and questions at registration among them
		require.Equal(t, []string{own}, r.Values("Host"), r.Head[0])
		require.NotContains(t, strings.Join(r.Head, "\n"), "example.com", r.Head[0])
	}
}

// C18 over TLS, http-dataplane.md section 6: the name that a handshake asks for is the worker's own too, whatever the client's Host.
func TestC18AWorkerIsAskedForByItsOwnNameOverTLS(t *testing.T) {
	t.Parallel() // it waits for a probe
	a := newAuthority(t)
	for name, spec := range map[string]string{"HTTP/1.1": `{"url":"%s"}`, "HTTP/2": `{"url":"%s","http_pool":{"http2":true}}`} {
		t.Run(name, func(t *testing.T) {
			names := make(chan string, 100) // of each handshake
			config := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}, NextProtos: []string{"h2", "http/1.1"}}
			config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				names <- hello.ServerName
				return nil, nil
			}
			w := secureWorker(t, config, workerPlan{Get: func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{}`) }})
			own := "localhost:" + w.Port
			g := start(t, func(c *Config) {
				c.CACertPaths, c.MaxBufferedRequestBytes, c.HealthCheckInterval = []string{a.CA}, 512, 1
			})
			require.Equal(t, http.StatusAccepted, g.post(t, "/workers", fmt.Sprintf(spec, "https://"+own)).StatusCode)
			g.serving(t, 1)
			for _, body := range []string{chat, chats, chatOf(1 << 10), ""} {
				path := map[bool]string{true: "/get_server_info", false: chatPath}[body == ""]
				c := g.dial(t)
				_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: gw.example.com\r\nX-Forwarded-Host: gw.example.com\r\n"+
					"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", methodFor(body), path, len(body), body)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, c.whole().StatusCode)
			}
			probes := len(w.asked(http.MethodGet, "/health"))
			g.until(t, func() bool { return len(w.asked(http.MethodGet, "/health")) > probes })
			require.Len(t, w.asked(http.MethodPost, chatPath), 3)
			for _, s := range w.Seen("") {
				require.Equal(t, own, s.Host, s.URI)
			}
			require.NotEmpty(t, names)
			for range len(names) {
				require.Equal(t, "localhost", <-names)
			}
		})
	}
}

// C18: a request without exactly one Host is no request.
func TestC18ARequestNeedsOneHost(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	g := start(t, nil, e)
	for name, lines := range map[string]string{
		"none": "", "two": "Host: a\r\nHost: b\r\n", "one twice": "Host: a\r\nHost: a\r\n", "one that is no host": "Host: a b\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := g.dial(t)
			_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, lines, len(chat), chat)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, c.read(t).StatusCode)
			require.Empty(t, posts(e))
		})
	}
}
