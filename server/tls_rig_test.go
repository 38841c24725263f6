package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority is one that certificates of a test come from. Its own is in the file CA.
type authority struct {
	CA   string
	Pool *x509.CertPool

	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// identity is a certificate and its key, in files and in memory.
type identity struct {
	Cert, Key string
	Pair      tls.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	require.NoError(t, err)
	a := &authority{CA: filepath.Join(t.TempDir(), "ca.pem"), Pool: x509.NewCertPool(), key: key, serial: 1}
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.cert)
	writePEM(t, a.CA, "CERTIFICATE", der)
	return a
}

// issue makes an identity for loopback, good for servers and clients.
func (a *authority) issue(t testing.TB, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.serial++
	form := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	id := identity{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	writePEM(t, id.Cert, "CERTIFICATE", der)
	writePEM(t, id.Key, "EC PRIVATE KEY", secret)
	id.Pair, err = tls.LoadX509KeyPair(id.Cert, id.Key)
	require.NoError(t, err)
	return id
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// replaces puts an identity's files in the place of another's.
func (id identity) replaces(t testing.TB, other identity) {
	t.Helper()
	copyFile(t, id.Cert, other.Cert)
	copyFile(t, id.Key, other.Key)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

// secureClient is a client of one protocol ("http/1.1" or "h2") that trusts the authority.
func (a *authority) secureClient(t testing.TB, protocol string, change ...func(*tls.Config)) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: a.Pool, ServerName: "localhost"}
	for _, f := range change {
		f(config)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(protocol == "http/1.1")
	protocols.SetHTTP2(protocol == "h2")
	transport := &http.Transport{TLSClientConfig: config, Protocols: &protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// startSecure is a gateway that serves HTTPS in front of workers, and is ready for them.
func startSecure(t testing.TB, a *authority, id identity, configure func(*Config), urls ...string) *running {
	t.Helper()
	g := start(t, func(c *Config) {
		c.TLSCertPath, c.TLSKeyPath, c.WorkerURLs = id.Cert, id.Key, urls
		if configure != nil {
			configure(c)
		}
	})
	g.URL = strings.Replace(g.URL, "http://", "https://", 1)
	client := a.secureClient(t, "http/1.1")
	require.Eventually(t, func() bool {
		r := askOver(t, client, http.MethodGet, g.URL+"/readiness", "")
		return len(urls) == 0 || r.StatusCode == http.StatusOK
	}, patience, 5*time.Millisecond, "it is never ready")
	client.CloseIdleConnections()
	return g
}

// askOver asks over a client; its body is read to the end.
func askOver(t testing.TB, client *http.Client, method, url, body string) response {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return response{resp, string(read), err}
}

// secureWorker is an httpWorker over TLS; config may be changed by the test before it starts. It keeps no connection.
func secureWorker(t testing.TB, config *tls.Config, plan workerPlan) *httpWorker {
	t.Helper()
	if plan.Models == "" {
		plan.Models = `{"object":"list","data":[{"id":"m1","object":"model","owned_by":"vllm"}]}`
	}
	w := &httpWorker{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(plan, rw, r) }))
	srv.TLS = config
	srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, nthKey{}, new(atomic.Int32))
	}
	srv.Config.SetKeepAlivesEnabled(false)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.URL = srv.URL
	_, w.Port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return w
}

// dialSecure opens a client's connection over TLS, for HTTP/1.1.
func (g *running) dialSecure(t testing.TB, a *authority) *tls.Conn {
	t.Helper()
	c := tls.Client(g.dialPlain(t).TCPConn, &tls.Config{RootCAs: a.Pool, ServerName: "localhost", NextProtos: []string{"http/1.1"}})
	require.NoError(t, c.Handshake())
	return c
}
