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

// Case C17 (worker URL forms), workers.md section 1: however a worker's URL is written, everything that is asked of it is asked at
// the right path with the right Host, and it is one worker.
func TestC17EveryFormOfAWorkersURLReachesIt(t *testing.T) {
	forms := []struct {
		name, addr string
		url        string // %s is the port
		prefix     string
		host       string
		listsAs    string
	}{
		{name: "the plain form", url: "http://127.0.0.1:%s", host: "127.0.0.1:%s", listsAs: "http://127.0.0.1:%s"},
		{name: "a slash at the end", url: "http://127.0.0.1:%s/", host: "127.0.0.1:%s", listsAs: "http://127.0.0.1:%s"},
		{name: "several slashes at the end", url: "http://127.0.0.1:%s///", host: "127.0.0.1:%s", listsAs: "http://127.0.0.1:%s"},
		{name: "a host name", url: "http://localhost:%s", host: "localhost:%s", listsAs: "http://localhost:%s"},
		{name: "a prefix", url: "http://127.0.0.1:%s/base", prefix: "/base", host: "127.0.0.1:%s", listsAs: "http://127.0.0.1:%s/base"},
		{name: "a prefix with a slash", url: "http://127.0.0.1:%s/a/b/", prefix: "/a/b", host: "127.0.0.1:%s", listsAs: "http://127.0.0.1:%s/a/b"},
		{name: "an IPv6 address", addr: "[::1]:0", url: "http://[::1]:%s", host: "[::1]:%s", listsAs: "http://[::1]:%s"},
		{name: "an IPv6 address, a prefix and a slash", addr: "[::1]:0", url: "http://[::1]:%s/base/", prefix: "/base", host: "[::1]:%s", listsAs: "http://[::1]:%s/base"},
	}
	for _, tt := range forms {
		for _, how := range []string{"by flag", "by POST /workers"} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				if tt.addr != "" && !hasIPv6() {
					t.Skip("no IPv6 loopback here")
				}
				w := startHTTPWorker(t, workerPlan{Addr: tt.addr, Prefix: tt.prefix, Get: func(rw http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(rw, "{}")
				}})
				at := func(form string) string { return fmt.Sprintf(form, w.Port) }
				g := enrolled(t, how, at(tt.url))

				require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
				for _, path := range []string{"/health_generate", "/get_model_info", "/get_server_info"} {
					require.Equal(t, http.StatusOK, g.get(t, path).StatusCode, path)
				}
				require.Contains(t, g.get(t, "/workers").Body, `"url":"`+at(tt.listsAs)+`"`)
				require.Equal(t, 1, g.gateway.registry.Len())
				asked := map[string]bool{}
				for _, s := range w.Seen("") {
					require.Equal(t, at(tt.host), s.Host)
					require.NotContains(t, s.URI, "//")
					require.True(t, strings.HasPrefix(s.URI, tt.prefix+"/"), s.URI)
					asked[s.Method+" "+s.URI] = true
				}
				require.Contains(t, asked, "POST "+tt.prefix+chatPath)
				require.Contains(t, asked, "GET "+tt.prefix+"/health")
				require.Contains(t, asked, "GET "+tt.prefix+"/get_server_info")
			})
		}
	}
}

// C17: so is an https form, if its authority is known.
func TestC17AnHTTPSFormReachesItsWorker(t *testing.T) {
	a := newAuthority(t)
	w := secureWorker(t, &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}}, workerPlan{Prefix: "/base"})
	trusting := func(c *Config) { c.CACertPaths = []string{a.CA} }
	for _, tt := range []struct{ name, url, host string }{
		{"an address", "https://127.0.0.1:" + w.Port + "/base", "127.0.0.1:" + w.Port},
		{"a name, and a slash", "https://localhost:" + w.Port + "/base/", "localhost:" + w.Port},
	} {
		for _, how := range []string{"by flag", "by POST /workers"} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				before := len(w.Seen(""))
				g := enrolled(t, how, tt.url, trusting)
				require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
				require.Equal(t, 1, g.gateway.registry.Len())
				seen := w.Seen("")[before:]
				require.NotEmpty(t, seen)
				for _, s := range seen {
					require.Equal(t, tt.host, s.Host)
					require.True(t, strings.HasPrefix(s.URI, "/base/"), s.URI)
					require.NotContains(t, s.URI, "//")
				}
			})
		}
	}
}

// enrolled is a gateway with one worker that serves.
func enrolled(t *testing.T, how, url string, configure ...func(*Config)) *running {
	t.Helper()
	configured := func(c *Config) {
		for _, f := range configure {
			f(c)
		}
		if how == "by flag" {
			fronting(url)(c)
		}
	}
	g := start(t, configured)
	if how == "by flag" {
		g.serving(t, 1)
		return g
	}
	require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+url+`"}`).StatusCode)
	g.serving(t, 1)
	return g
}

func hasIPv6() bool {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

// C17, http-dataplane.md section 18: what is no worker's URL is refused where it is given, and leaves nothing behind.
func TestC17WhatIsNoWorkersURLIsRefused(t *testing.T) {
	tests := []struct{ name, url string }{
		{"nothing", ""},
		{"no scheme", "127.0.0.1:9001"},
		{"a name without a scheme", "localhost"},
		{"a scheme in capitals", "HTTP://127.0.0.1:9001"},
		{"another scheme", "ftp://x"},
		{"no host", "http://"},
		{"a port without a host", "http://:9001"},
		{"a path without a host", "http:///base"},
		{"no port behind the colon but letters", "http://127.0.0.1:port"},
		{"a port that is none", "http://127.0.0.1:65536"},
		{"port 0", "http://127.0.0.1:0"},
		{"an IPv6 address without brackets", "http://fd00::5:9001"},
		{"a bracket that is not closed", "http://[::1:9001"},
		{"a query", "http://127.0.0.1:9001?a=b"},
		{"a fragment", "http://127.0.0.1:9001#a"},
		{"credentials", "http://user:hunter2@127.0.0.1:9001"},
		{"blanks around it", " http://127.0.0.1:9001 "},
		{"a blank within", "http://127.0.0.1 :9001"},
		{"a line end within", "http://127.0.0.1:9001/\\r\\nX-Evil: 1"},
	}
	g := start(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := g.post(t, "/workers", `{"url":"`+tt.url+`"}`)
			require.Equal(t, http.StatusBadRequest, r.StatusCode, r.Body)
			require.Contains(t, r.Body, `"code":"BAD_REQUEST"`)
			require.NotContains(t, r.Body, "hunter2")
			require.Contains(t, g.get(t, "/workers").Body, `"total":0`)

			cfg := Default()
			cfg.WorkerURLs = []string{strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(tt.url)}
			found := cfg.Validate()
			require.Len(t, found, 1)
			require.Contains(t, found[0].String(), "--worker-urls")
			require.NotContains(t, found[0].String(), "hunter2")
		})
	}
	require.NotContains(t, g.Log.String(), "hunter2")
}

// C17, workers.md section 1: two spellings are one worker.
func TestC17TwoSpellingsAreOneWorker(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	t.Run("by flag", func(t *testing.T) {
		g := start(t, fronting(e.URL+"/", e.URL, e.URL+"//"))
		g.serving(t, 1)
		require.Contains(t, g.get(t, "/workers").Body, `"total":1`)
	})
	t.Run("by POST /workers", func(t *testing.T) {
		g := start(t, nil)
		require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+e.URL+`/"}`).StatusCode)
		again := func(url string) response { return g.post(t, "/workers", `{"url":"`+url+`"}`) }
		require.Equal(t, http.StatusConflict, again(e.URL).StatusCode, "while it is being registered, or already is")
		g.serving(t, 1)
		require.Equal(t, http.StatusConflict, again(e.URL).StatusCode)
		require.Equal(t, http.StatusConflict, again(e.URL+"//").StatusCode)
		require.Contains(t, g.get(t, "/workers").Body, `"total":1`)
	})
	t.Run("by flag and by POST /workers", func(t *testing.T) {
		g := start(t, fronting(e.URL))
		g.serving(t, 1)
		require.Equal(t, http.StatusConflict, g.post(t, "/workers", `{"url":"`+e.URL+`/"}`).StatusCode)
	})
}

// C17, DECISIONS.md row 7: a worker's redirect is the client's to follow; the gateway takes no request, and no credential,
// anywhere but to a worker.
func TestC17ARedirectIsHandedOnAndNeverFollowed(t *testing.T) {
	elsewhere := startHTTPWorker(t, workerPlan{})
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	targets := []struct{ name, location string }{
		{"to another origin", elsewhere.URL + chatPath},
		{"to the same origin", w.URL + "/v1/other"},
		{"to a path", "/v1/other"},
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range targets {
			t.Run(fmt.Sprintf("%d %s", status, to.name), func(t *testing.T) {
				w.SetFaults(engine.Fault{Status: status, Body: "moved", Headers: engine.Headers{"Location: " + to.location}})
				for _, body := range []string{chat, chats} {
					w.ClearRequests()
					req, err := http.NewRequest(http.MethodPost, g.URL+chatPath, strings.NewReader(body))
					require.NoError(t, err)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Authorization", "Bearer secret")
					resp, err := http.DefaultTransport.RoundTrip(req) // which follows nothing either
					require.NoError(t, err)
					moved, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, status, resp.StatusCode)
					require.Equal(t, to.location, resp.Header.Get("Location"))
					require.Equal(t, "moved", string(moved))
					require.Len(t, posts(w), 1)
				}
			})
		}
	}
	require.Empty(t, elsewhere.Seen(""))
	require.Zero(t, g.failures())
}

// C17: neither do probes, questions at registration and proxied questions follow a redirect with the worker's key.
func TestC17AProbeDoesNotTakeTheWorkersKeyElsewhere(t *testing.T) {
	t.Parallel() // it waits
	elsewhere := startHTTPWorker(t, workerPlan{})
	w := engine.Start(t, engine.Config{})
	g := start(t, nil)
	w.SetFaults(engine.Fault{Path: "*", Method: http.MethodGet, Status: 307, Headers: engine.Headers{"Location: " + elsewhere.URL + "/health"}})
	require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+w.URL+`","api_key":"wk"}`).StatusCode)
	probed := func() bool { return w.State().Paths["/health"] > 0 }
	require.Eventually(t, probed, patience, patience/10_000)
	w.SetFaults(engine.Fault{Path: "/get_*", Method: http.MethodGet, Status: 307, Headers: engine.Headers{"Location: " + elsewhere.URL + "/health"}})
	g.serving(t, 1)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(g.URL + "/get_server_info")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
	client.CloseIdleConnections()
	require.Empty(t, elsewhere.Seen(""))
}
