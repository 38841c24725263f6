package clustertest

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Variable names the binary that .ci/testcluster builds.
const Variable = "SMG_TEST_CLUSTER"

// Cluster is a control plane: etcd, and an API server unless it was stopped. Its methods may be called at once, but for those that
// stop and start the API server.
type Cluster struct {
	URL string // of the API server; it stays the same when the server is started again

	binary, dir string
	token       string // of an administrator
	port        int
	etcdPort    int
	flags       []string
	identity    *identity
	etcd, api   *process
}

var shared struct {
	sync.Once
	cluster *Cluster
	err     error
}

// Need is the cluster that all tests of a package share. The first one that asks waits until it is up. Without a binary the test is
// skipped, with a sentence that says how to get one.
func Need(tb TB) *Cluster {
	tb.Helper()
	binary := needBinary(tb)
	shared.Do(func() { shared.cluster, shared.err = open(binary) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.cluster
}

// Start is a cluster for one test, for what others would feel: an API server that stops, a compaction. Flags are added to those of
// the API server, such as "--watch-cache=false".
func Start(tb TB, flags ...string) *Cluster {
	tb.Helper()
	c, err := open(needBinary(tb), flags...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.close)
	return c
}

func needBinary(tb TB) string {
	tb.Helper()
	binary := os.Getenv(Variable)
	if binary == "" {
		tb.Skipf("left out: what needs a real Kubernetes API server; %s=$(.ci/testcluster) builds one (10 minutes, once) and has it run", Variable)
	}
	return binary
}

// open starts etcd and the API server. The port is only known to be free when the server has it: hence the attempts.
func open(binary string, flags ...string) (c *Cluster, err error) {
	for range 3 {
		if c, err = attempt(binary, flags); err == nil {
			return c, nil
		}
		c.close()
	}
	return nil, err
}

// attempt is never nil: what has been started is there to be closed.
func attempt(binary string, flags []string) (*Cluster, error) {
	c := &Cluster{binary: binary, flags: flags, token: rand.Text()}
	var err error
	if c.dir, err = os.MkdirTemp("", "clustertest-"); err != nil {
		return c, err
	}
	if c.identity, err = newIdentity(c.dir); err != nil {
		return c, err
	}
	users := fmt.Sprintf("%s,admin,admin,system:masters\n", c.token)
	if err = os.WriteFile(c.file("users.csv"), []byte(users), 0o600); err != nil {
		return c, err
	}
	if c.etcdPort, err = engine.FreePort(); err != nil {
		return c, err
	}
	if c.port, err = engine.FreePort(); err != nil {
		return c, err
	}
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", c.port)
	if err = c.startEtcd(); err != nil {
		return c, err
	}
	return c, c.startAPI()
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// startEtcd gives etcd the whole folder: it removes it when this process has ended without doing so.
func (c *Cluster) startEtcd() (err error) {
	c.etcd, err = launch(c.binary, c.file("etcd.log"), "etcd", "--data", c.dir, "--client-port", fmt.Sprint(c.etcdPort))
	if err != nil {
		return err
	}
	return c.etcd.until(func() bool { return c.etcdAsk("maintenance/status", `{}`, nil) == nil })
}

func (c *Cluster) startAPI() (err error) {
	args := append([]string{
		"apiserver", "--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort), "--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--secure-port", fmt.Sprint(c.port),
		"--tls-cert-file", c.identity.certFile, "--tls-private-key-file", c.identity.keyFile,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", c.identity.keyFile,
		"--service-account-signing-key-file", c.identity.keyFile, "--service-cluster-ip-range", "10.0.0.0/24",
		"--authorization-mode", "RBAC", "--token-auth-file", c.file("users.csv"),
		"--disable-admission-plugins", "ServiceAccount", // nobody makes the default service account
		"--enable-priority-and-fairness=false", "--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0", "--profiling=false",
	}, c.flags...)
	if c.api, err = launch(c.binary, c.file("apiserver.log"), args...); err != nil {
		return err
	}
	return c.api.until(c.ready)
}

// ready asks the API server whether it is.
func (c *Cluster) ready() bool {
	client, done := c.client()
	defer done()
	req, err := http.NewRequest(http.MethodGet, c.URL+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// client speaks to the API server until done is called.
func (c *Cluster) client() (client *http.Client, done func()) {
	transport := &http.Transport{TLSClientConfig: c.identity.client, MaxIdleConnsPerHost: 32}
	return &http.Client{Transport: transport, Timeout: time.Minute}, transport.CloseIdleConnections
}

// Stop kills the API server. Its connections are reset, later ones are refused; etcd keeps what there is.
func (c *Cluster) Stop() {
	if c.api != nil {
		c.api.kill()
		c.api = nil
	}
}

// Restart starts the API server again, on its old port, and waits until it is ready.
func (c *Cluster) Restart(tb TB) {
	tb.Helper()
	c.Stop()
	if err := c.startAPI(); err != nil {
		tb.Fatal(err)
	}
}

// Log is what the API server has said, for a test that fails.
func (c *Cluster) Log() string {
	said, _ := os.ReadFile(c.file("apiserver.log"))
	return strings.TrimSpace(string(said))
}

func (c *Cluster) close() {
	c.Stop()
	if c.etcd != nil {
		c.etcd.kill()
		c.etcd = nil
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}
