package server

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md section 12.3: a worker that wants to see a certificate is shown it, and one whose authority was named is believed,
// by everything that asks workers: registrations, requests, probes, polls and proxied questions, over HTTP/1.1 and HTTP/2.
func TestWorkersAreShownTheCertificateByWhoeverAsks(t *testing.T) {
	t.Parallel() // it waits
	a := newAuthority(t)
	mine := a.issue(t, "gateway")
	for _, how := range []struct{ name, spec string }{
		{"HTTP/1.1", `{"url":"%s"}`},
		{"HTTP/2", `{"url":"%s","http_pool":{"http2":true}}`},
	} {
		t.Run(how.name, func(t *testing.T) {
			var strangers atomic.Int32
			config := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool}
			config.NextProtos = []string{"h2", "http/1.1"}
			w := secureWorker(t, config, workerPlan{Get: func(rw http.ResponseWriter, r *http.Request) {
				if r.TLS == nil || r.TLS.PeerCertificates[0].Subject.CommonName != "gateway" {
					strangers.Add(1)
				}
				_, _ = io.WriteString(rw, `{}`)
			}})
			g := start(t, func(c *Config) {
				c.ClientCertPath, c.ClientKeyPath, c.CACertPaths = mine.Cert, mine.Key, []string{a.CA}
				c.HealthCheckInterval, c.LoadMonitorInterval, c.Policy = 1, 1, "least_load"
			})
			require.Equal(t, http.StatusAccepted, g.post(t, "/workers", strings.Replace(how.spec, "%s", w.URL, 1)).StatusCode)
			g.serving(t, 1)
			probes := func() int { return len(w.asked(http.MethodGet, "/health")) }
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chatOf(2<<20)).StatusCode, "a streamed body")
			require.Equal(t, http.StatusOK, g.get(t, "/get_server_info").StatusCode)
			before := probes()
			require.Eventually(t, func() bool { return probes() > before && len(w.asked(http.MethodGet, "/v1/loads")) > 0 }, patience, patience/10_000)
			require.Zero(t, strangers.Load())
			require.Zero(t, g.failures())
		})
	}
}

// asked are the requests for paths that begin so.
func (w *httpWorker) asked(method, path string) (found []seen) {
	for _, s := range w.Seen("") {
		if s.Method == method && strings.HasPrefix(s.URI, path) {
			found = append(found, s)
		}
	}
	return found
}

// http-dataplane.md section 12.3: without the certificate, or the authority, there is no connection: 502, and nothing is asked.
func TestAWorkerThatCannotBeReachedOverTLSIsABadGateway(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	var now atomic.Pointer[tls.Config]
	lax := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}}
	strict := lax.Clone()
	strict.ClientAuth, strict.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool
	strange := &tls.Config{Certificates: []tls.Certificate{other.issue(t, "worker").Pair}}
	for _, tt := range []struct {
		name string
		turn *tls.Config
	}{
		{"it wants a certificate", strict},
		{"its own is of an authority that nobody knows", strange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now.Store(lax)
			w := secureWorker(t, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }}, workerPlan{})
			g := start(t, func(c *Config) {
				c.CACertPaths, c.WorkerURLs, c.DisableHealthCheck, c.RetryMaxRetries = []string{a.CA}, []string{w.URL}, true, 1
			})
			g.serving(t, 1)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			asked := len(w.asked(http.MethodPost, ""))
			now.Store(tt.turn)
			r := g.post(t, chatPath, chat)
			require.Equal(t, http.StatusBadGateway, r.StatusCode, r.Body)
			require.Contains(t, r.Header.Get("X-SMG-Error-Code"), "call_upstream_")
			require.Len(t, w.asked(http.MethodPost, ""), asked)
			now.Store(lax)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
		})
	}
}

// http-dataplane.md section 12.3: what workers are shown and believed is replaced while the gateway runs.
func TestCertificatesForWorkersAreReplacedWithoutARestart(t *testing.T) {
	t.Parallel() // it waits
	old, young := newAuthority(t), newAuthority(t)
	mine := old.issue(t, "gateway")
	theirs := func(a *authority) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool}
	}
	var now atomic.Pointer[tls.Config]
	now.Store(theirs(old))
	w := secureWorker(t, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }}, workerPlan{})
	g := start(t, func(c *Config) {
		c.ClientCertPath, c.ClientKeyPath, c.CACertPaths, c.WorkerURLs = mine.Cert, mine.Key, []string{old.CA}, []string{w.URL}
		c.DisableHealthCheck, c.DisableBreaker = true, true
	})
	g.serving(t, 1)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	now.Store(theirs(young))
	require.Equal(t, http.StatusBadGateway, g.post(t, chatPath, chat).StatusCode)
	young.issue(t, "gateway").replaces(t, mine)
	copyFile(t, young.CA, old.CA)
	require.Eventually(t, func() bool { return g.post(t, chatPath, chat).StatusCode == http.StatusOK }, patience, patience/1000)
}

// http-dataplane.md section 12.3: a program that runs the gateway has a server of its own, and the gateway's workers.
func TestAnEmbeddedGatewayUsesTheFilesForWorkersAlone(t *testing.T) {
	a := newAuthority(t)
	w := secureWorker(t, &tls.Config{Certificates: []tls.Certificate{a.issue(t, "worker").Pair}}, workerPlan{})
	g := embed(t, func(c *Config) { c.TLSCertPath, c.CACertPaths = "/nowhere", []string{a.CA} }, w.URL)
	srv := hosted(t, g.Handler())
	require.Equal(t, http.StatusOK, ask(t, http.MethodPost, srv.URL+chatPath, chat).StatusCode)
}
