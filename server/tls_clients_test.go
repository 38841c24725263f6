package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/telemetry"
)

// http-dataplane.md section 12.3: whatever of TLS and HTTP a client speaks, it is served as without.
func TestClientsAreServedOverTLS(t *testing.T) {
	a := newAuthority(t)
	e := engine.Start(t, engine.Config{})
	g := startSecure(t, a, a.issue(t, "gateway"), func(c *Config) { c.MaxBufferedRequestBytes = 0 }, e.URL)
	limited := func(version uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }
	}
	for _, tt := range []struct {
		name, protocol string
		version        uint16
		major          int
	}{
		{"HTTP/1.1 over TLS 1.2", "http/1.1", tls.VersionTLS12, 1},
		{"HTTP/1.1 over TLS 1.3", "http/1.1", tls.VersionTLS13, 1},
		{"HTTP/2 over TLS 1.2", "h2", tls.VersionTLS12, 2},
		{"HTTP/2 over TLS 1.3", "h2", tls.VersionTLS13, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := a.secureClient(t, tt.protocol, limited(tt.version))
			for _, body := range []string{chat, chatOf(2 << 20)} {
				e.ClearRequests()
				r := askOver(t, client, http.MethodPost, g.URL+chatPath, body)
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				require.Equal(t, tt.major, r.ProtoMajor)
				require.Equal(t, tt.version, r.TLS.Version)
				require.True(t, body == string(posts(e)[0].Body), "the body arrives as it was sent")
			}
			e.SetFaults(engine.Fault{Chunks: fiveEvents, ITLMillis: 1})
			defer e.SetFaults()
			r := askOver(t, client, http.MethodPost, g.URL+chatPath, chats)
			require.NoError(t, r.Err)
			require.Equal(t, strings.Join(fiveEvents, ""), r.Body)
			requireJSONError(t, askOver(t, client, http.MethodPost, g.URL+"/no/such/path", "{"), http.StatusNotFound, "unknown_url")
			requireJSONError(t, askOver(t, client, http.MethodPut, g.URL+chatPath, "{"), http.StatusMethodNotAllowed, "method_not_allowed")
			require.Equal(t, http.StatusOK, askOver(t, client, http.MethodHead, g.URL+"/health", "").StatusCode)
		})
	}
	t.Run("TLS 1.1 is refused", func(t *testing.T) {
		_, err := a.secureClient(t, "http/1.1", limited(tls.VersionTLS11)).Get(g.URL + "/health")
		require.ErrorContains(t, err, "protocol version")
	})
	t.Run("no certificate is asked of clients", func(t *testing.T) {
		asked := false
		client := a.secureClient(t, "http/1.1", func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return &tls.Certificate{}, nil
			}
		})
		require.Equal(t, http.StatusOK, askOver(t, client, http.MethodGet, g.URL+"/health", "").StatusCode)
		require.False(t, asked)
	})
	t.Run("a client that does not speak TLS is told so", func(t *testing.T) {
		r := g.dialPlain(t).ask(t, false, "GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n")
		require.Equal(t, http.StatusBadRequest, r.Status)
		require.Contains(t, r.Body, "HTTPS")
	})
	require.NotContains(t, g.Log.String(), "PRIVATE")
}

// dialPlain opens a connection without TLS to a gateway that serves HTTPS.
func (g *running) dialPlain(t testing.TB) *wire {
	t.Helper()
	c, err := net.Dial("tcp", g.main.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &wire{c.(*net.TCPConn), bufio.NewReader(c)}
}

// http-dataplane.md sections 9.3 and 12.3: a client that leaves is noticed over TLS too, while the worker is silent.
func TestAClientThatLeavesIsNoticedOverTLS(t *testing.T) {
	a := newAuthority(t)
	w := startPuppet(t, func(act *act) {
		act.stream()
		act.chunk(event)
		<-act.gone
	})
	g := startSecure(t, a, a.issue(t, "gateway"), nil, w.URL)
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			client := a.secureClient(t, protocol)
			resp, err := client.Post(g.URL+chatPath, "application/json", strings.NewReader(chats))
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(event)))
			require.NoError(t, err)
			require.NotZero(t, g.gateway.metrics.Inflight.Len())
			require.NoError(t, resp.Body.Close()) // before its end: the connection, or the stream, is given up
			g.quiet(t)
		})
	}
}

// http-dataplane.md section 12.3: certificates are replaced while the gateway runs, and a mistake there takes none away.
func TestTheServersCertificateIsReplacedWithoutARestart(t *testing.T) {
	a := newAuthority(t)
	first, second := a.issue(t, "first"), a.issue(t, "second")
	log := &lines{}
	logs, err := telemetry.NewLogger(telemetry.LogOptions{Stdout: log})
	require.NoError(t, err)
	cfg := Default()
	cfg.TLSCertPath, cfg.TLSKeyPath = first.Cert, first.Key
	pair, err := readFiles(logs.Target("smg"), keyPair, pemFile{"--tls-cert-path", first.Cert}, pemFile{"--tls-key-path", first.Key})
	require.NoError(t, err)
	pair.every = 0
	shows := func(name string) {
		t.Helper()
		require.Equal(t, name, pair.get().Leaf.Subject.CommonName)
	}
	shows("first")
	copyFile(t, second.Cert, first.Cert)
	shows("first") // half of the change: the key is not the certificate's
	shows("first")
	require.Equal(t, 1, strings.Count(log.String(), "the old one stays in use"), log.String())
	copyFile(t, second.Key, first.Key)
	shows("second")
	require.Equal(t, 1, strings.Count(log.String(), "changed files are in use"))
	for _, broken := range []string{"", "-----BEGIN", "hello"} {
		require.NoError(t, os.WriteFile(first.Cert, []byte(broken), 0o600))
		shows("second")
	}
	require.NoError(t, os.Remove(first.Cert))
	shows("second")
	require.Contains(t, log.String(), "no such file")
	a.issue(t, "third").replaces(t, first)
	shows("third")
	require.NotContains(t, log.String(), "PRIVATE")
}

// The same over the wire, with the look once a second that it is in earnest.
func TestNewConnectionsGetTheNewCertificate(t *testing.T) {
	t.Parallel() // it waits
	a := newAuthority(t)
	first := a.issue(t, "first")
	g := startSecure(t, a, first, nil)
	kept := a.secureClient(t, "h2")
	require.Equal(t, "first", askOver(t, kept, http.MethodGet, g.URL+"/health", "").TLS.PeerCertificates[0].Subject.CommonName)
	a.issue(t, "second").replaces(t, first)
	require.Eventually(t, func() bool {
		c, err := tls.Dial("tcp", g.main.Addr().String(), &tls.Config{RootCAs: a.Pool})
		require.NoError(t, err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName == "second"
	}, patience, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, askOver(t, kept, http.MethodGet, g.URL+"/health", "").StatusCode, "old connections go on")
}

// cli.md sections 5.12 and 6.5, http-dataplane.md section 12.3: what cannot be used keeps the gateway from starting, by name.
func TestFilesThatCannotBeUsedAreRefusedAtTheStart(t *testing.T) {
	a := newAuthority(t)
	good, other := a.issue(t, "one"), a.issue(t, "two")
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file.pem")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	mangled := file("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n")
	for _, tt := range []struct {
		name      string
		configure func(*Config)
		want      []string
	}{
		{"no such certificate", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = "/nowhere/c.pem", good.Key }, []string{"--tls-cert-path", "/nowhere/c.pem", "no such file"}},
		{"no such key", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = good.Cert, "/nowhere/k.pem" }, []string{"--tls-key-path", "/nowhere/k.pem", "no such file"}},
		{"an empty certificate", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = file(" \n"), good.Key }, []string{"--tls-cert-path", "empty"}},
		{"an empty key", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = good.Cert, file("") }, []string{"--tls-key-path", "empty"}},
		{"a key of another certificate", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = good.Cert, other.Key }, []string{"--tls-cert-path", "does not match"}},
		{"a certificate that is none", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = file("hello"), good.Key }, []string{"--tls-cert-path", "PEM"}},
		{"a directory", func(c *Config) { c.TLSCertPath, c.TLSKeyPath = t.TempDir(), good.Key }, []string{"--tls-cert-path", "directory"}},
		{"no such client certificate", func(c *Config) { c.ClientCertPath, c.ClientKeyPath = "/nowhere/c.pem", good.Key }, []string{"--client-cert-path", "no such file"}},
		{"an empty client key", func(c *Config) { c.ClientCertPath, c.ClientKeyPath = good.Cert, file("") }, []string{"--client-key-path", "empty"}},
		{"no such authority", func(c *Config) { c.CACertPaths = []string{a.CA, "/nowhere/ca.pem"} }, []string{"--ca-cert-paths", "/nowhere/ca.pem", "no such file"}},
		{"an authority that is empty", func(c *Config) { c.CACertPaths = []string{file("")} }, []string{"--ca-cert-paths", "no certificate"}},
		{"a key for an authority", func(c *Config) { c.CACertPaths = []string{good.Key} }, []string{"--ca-cert-paths", "no certificate"}},
		{"an authority that is mangled", func(c *Config) { c.CACertPaths = []string{a.CA, mangled} }, []string{"--ca-cert-paths", mangled, "certificate 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{})
			cfg := Default()
			cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort, cfg.WorkerURLs = "127.0.0.1", 0, "127.0.0.1", 0, []string{e.URL}
			tt.configure(cfg)
			logs, err := telemetry.NewLogger(telemetry.LogOptions{Stdout: io.Discard})
			require.NoError(t, err)
			_, err = listen(cfg, logs)
			var refused *ConfigError
			require.ErrorAs(t, err, &refused)
			require.Len(t, refused.Violations, 1)
			for _, part := range tt.want {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "PRIVATE")
			require.Empty(t, e.Requests(), "no worker was contacted")
		})
	}
}

// cli.md section 6.5: a certificate and its key come together.
func TestACertificateComesWithItsKey(t *testing.T) {
	for _, tt := range []struct {
		name      string
		configure func(*Config)
		want      string
	}{
		{"a certificate alone", func(c *Config) { c.TLSCertPath = "c" }, "invalid --tls-cert-path: 'c': needs --tls-key-path as well"},
		{"a key alone", func(c *Config) { c.TLSKeyPath = "k" }, "invalid --tls-key-path: 'k': needs --tls-cert-path as well"},
		{"a client certificate alone", func(c *Config) { c.ClientCertPath = "c" }, "invalid --client-cert-path: 'c': needs --client-key-path as well"},
		{"a client key alone", func(c *Config) { c.ClientKeyPath = "k" }, "invalid --client-key-path: 'k': needs --client-cert-path as well"},
		{"an authority without a name", func(c *Config) { c.CACertPaths = []string{""} }, "invalid --ca-cert-paths: '': must name a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Default()
			tt.configure(cfg)
			found := cfg.Validate()
			require.Len(t, found, 1)
			require.Equal(t, tt.want, found[0].String())
		})
	}
}

// DECISIONS.md row 38: a client that is slow with its handshake is closed and counted, and holds up nobody.
func TestASlowHandshakeIsTimedOut(t *testing.T) {
	t.Parallel() // it waits
	a := newAuthority(t)
	g := startSecure(t, a, a.issue(t, "gateway"), func(c *Config) { c.HeaderReadTimeout = 1 })
	for _, sent := range []string{"", "\x16\x03\x01"} {
		c := g.dialPlain(t)
		_, err := io.WriteString(c, sent)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, askOver(t, a.secureClient(t, "http/1.1"), http.MethodGet, g.URL+"/health", "").StatusCode)
		_, err = c.in.ReadByte()
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), err)
	}
	require.Eventually(t, func() bool { return testutil.ToFloat64(g.gateway.metrics.HTTP.HeaderTimeouts) == 2 }, patience, time.Millisecond)
}

// workers.md section 21: idle connections over TLS, of either protocol, do not hold the end up; a stream comes to its end.
func TestShutdownOverTLS(t *testing.T) {
	t.Parallel() // it waits
	a := newAuthority(t)
	p, finish := playedStream(t)
	g := startSecure(t, a, a.issue(t, "gateway"), long, p.URL)
	patiently(g)
	for _, protocol := range []string{"http/1.1", "h2"} {
		client := a.secureClient(t, protocol)
		require.Equal(t, http.StatusOK, askOver(t, client, http.MethodGet, g.URL+"/health", "").StatusCode)
	}
	half := g.dialPlain(t) // a handshake that is under way
	resp, err := a.secureClient(t, "h2").Post(g.URL+chatPath, "application/json", strings.NewReader(chats))
	require.NoError(t, err)
	defer resp.Body.Close()
	g.stop <- syscall.SIGTERM
	g.stop <- os.Interrupt
	_, err = half.in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "it is given up when the settle window ends")
	finish()
	whole, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(whole))
	g.ended(t)
}
