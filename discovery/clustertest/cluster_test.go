package clustertest_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery/clustertest"
)

// reader asks for pods as what is tested would: with a kubeconfig.
type reader struct {
	*http.Client
	server, token, namespace string
}

func newReader(t *testing.T, n *clustertest.Namespace, through *clustertest.Proxy) *reader {
	text, err := os.ReadFile(n.Kubeconfig(t, through))
	require.NoError(t, err)
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     string `json:"certificate-authority"`
			}
		}
		Users []struct{ User struct{ Token string } }
	}
	require.NoError(t, json.Unmarshal(text, &config))
	ca, err := os.ReadFile(config.Clusters[0].Cluster.CA)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &reader{&http.Client{Transport: transport}, config.Clusters[0].Cluster.Server, config.Users[0].User.Token, n.Name}
}

func (r *reader) get(t *testing.T, query string) *http.Response {
	req, err := http.NewRequest(http.MethodGet, r.server+"/api/v1/namespaces/"+r.namespace+"/pods?"+query, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := r.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

type list struct {
	Metadata struct{ ResourceVersion, Continue string }
	Items    []struct {
		Metadata struct {
			Name, UID         string
			DeletionTimestamp *time.Time
			ManagedFields     []json.RawMessage
		}
		Status struct {
			Phase, PodIP string
			Conditions   []struct{ Type, Status string }
		}
	}
}

func (r *reader) list(t *testing.T) (l list) {
	resp := r.get(t, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&l))
	return l
}

// watch reads the events of a watch, as type and name of the pod.
func (r *reader) watch(t *testing.T, version string) (*http.Response, func() (string, error)) {
	resp := r.get(t, "watch=true&resourceVersion="+url.QueryEscape(version))
	lines := bufio.NewReader(resp.Body)
	return resp, func() (string, error) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return "", err
		}
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Name string }
				Code     int
			}
		}
		require.NoError(t, json.Unmarshal(line, &event))
		return strings.TrimSpace(fmt.Sprintf("%s %s", event.Type, event.Object.Metadata.Name)), nil
	}
}

// discovery.md, section 20: pods are what a kubelet would say of them.
func TestAPodLivesAsTheTestSays(t *testing.T) {
	t.Parallel()
	n := clustertest.Need(t).Namespace(t)
	r := newReader(t, n, nil)
	made := n.Run(t, clustertest.Pod{Name: "p1", IP: "127.1.2.3", Labels: map[string]string{"app": "m"}, Managed: 20_000})
	pod := r.list(t).Items[0]
	require.Equal(t, made.UID, pod.Metadata.UID)
	require.Equal(t, "Running", pod.Status.Phase)
	require.Equal(t, "127.1.2.3", pod.Status.PodIP)
	require.Equal(t, "True", pod.Status.Conditions[0].Status)
	managed, err := json.Marshal(pod.Metadata.ManagedFields)
	require.NoError(t, err)
	require.Greater(t, len(managed), 20_000)

	n.Unready(t, "p1")
	require.Equal(t, "False", r.list(t).Items[0].Status.Conditions[0].Status)
	require.Equal(t, "127.1.2.3", r.list(t).Items[0].Status.PodIP)
	n.Terminate(t, "p1", time.Minute)
	require.NotNil(t, r.list(t).Items[0].Metadata.DeletionTimestamp, "the object stays")
	require.True(t, n.Exists(t, "p1"))
	n.Delete(t, "p1")
	require.False(t, n.Exists(t, "p1"))
	require.Empty(t, r.list(t).Items)
}

// discovery.md, sections 15 and 20.
func TestTheServiceAccountMayReadWhatItIsGranted(t *testing.T) {
	t.Parallel()
	n := clustertest.Need(t).Namespace(t)
	r := newReader(t, n, nil)
	require.Equal(t, http.StatusOK, r.get(t, "").StatusCode)
	n.Revoke(t)
	require.Equal(t, http.StatusForbidden, r.get(t, "").StatusCode)
	n.Grant(t)
	require.Equal(t, http.StatusOK, r.get(t, "").StatusCode)
	other := clustertest.Need(t).Namespace(t)
	r.namespace = other.Name
	require.Equal(t, http.StatusForbidden, r.get(t, "").StatusCode)
	n.GrantEverywhere(t)
	require.Equal(t, http.StatusOK, r.get(t, "").StatusCode)
}

// discovery.md, section 20: one proxy between smg and the API server that cuts, stalls and counts.
func TestTheProxyCutsStallsAndCounts(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Need(t)
	n, proxy := cluster.Namespace(t), cluster.Proxy(t)
	r := newReader(t, n, proxy)
	version := r.list(t).Metadata.ResourceVersion
	_, next := r.watch(t, version)
	n.Create(t, clustertest.Pod{Name: "p1"})
	event, err := next()
	require.NoError(t, err)
	require.Equal(t, "ADDED p1", event)

	proxy.Cut()
	_, err = next()
	require.Error(t, err)
	_, err = r.Get(proxy.URL)
	require.Error(t, err)
	proxy.Restore()
	_, next = r.watch(t, version)
	event, err = next()
	require.NoError(t, err)
	require.Equal(t, "ADDED p1", event, "the version is still known")
	require.Equal(t, []int{1, 2, 2}, []int{proxy.Lists(), proxy.Watches(), proxy.Watching()})

	proxy.Stall()
	n.Create(t, clustertest.Pod{Name: "p2"})
	came := make(chan string, 1)
	go func() {
		event, _ := next()
		came <- event
	}()
	select {
	case event := <-came:
		t.Fatalf("%s came through a stalled proxy", event)
	case <-time.After(200 * time.Millisecond): // long enough for the event to be late for another reason than the stall
	}
	proxy.Restore()
	require.Equal(t, "ADDED p2", <-came)
}

// discovery.md, section 20: watch version expiry on purpose, and an API server that goes and comes.
func TestACompactionAndARestart(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t, "--watch-cache=false")
	n := cluster.Namespace(t)
	r := newReader(t, n, nil)
	version := r.list(t).Metadata.ResourceVersion
	n.Create(t, clustertest.Pod{Name: "p1"})
	resp, next := r.watch(t, version)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	event, err := next()
	require.NoError(t, err)
	require.Equal(t, "ADDED p1", event)

	n.Create(t, clustertest.Pod{Name: "p2"})
	cluster.Compact(t)
	resp, next = r.watch(t, version)
	if resp.StatusCode == http.StatusOK { // in the stream, then
		event, err = next()
		require.NoError(t, err)
		require.Equal(t, "ERROR", event)
	} else {
		require.Equal(t, http.StatusGone, resp.StatusCode)
	}

	cluster.Stop()
	_, err = r.Get(cluster.URL)
	require.Error(t, err)
	cluster.Restart(t)
	require.Len(t, r.list(t).Items, 2)
}

// discovery.md, section 21, D47 and the examples: what is applied is there, and what is wrong with it is said.
func TestAManifestIsApplied(t *testing.T) {
	t.Parallel()
	n := clustertest.Need(t).Namespace(t)
	applied := n.Apply(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
# nothing but a comment
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: engines}
spec:
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec: {containers: [{name: engine, image: engine}]}
`))
	require.Equal(t, []string{"Role/reader", "Deployment/engines"}, applied)
	require.Equal(t, "engines", n.Get(t, "apps/v1/deployments/engines")["metadata"].(map[string]any)["name"])
}

// Two tests, or two processes, never wait for each other's pods.
func TestAddressesAreHandedOutOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		ip := clustertest.IP(t)
		require.False(t, seen[ip], ip)
		seen[ip] = true
	}
}

// An engine at an address of its own dies and comes back there.
func TestAnEngineServesAtItsAddress(t *testing.T) {
	a, b := clustertest.StartEngine(t), clustertest.StartEngine(t)
	require.NotEqual(t, a.Address(), b.Address())
	health := func(e *clustertest.Engine) error {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(e.URL() + "/health")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	require.NoError(t, health(a))
	a.Down()
	require.Error(t, health(a))
	require.NoError(t, health(b))
	a.Up(t)
	require.NoError(t, health(a))
	require.Equal(t, 2, a.Asked("/health"))
}

func TestWithoutABinaryTheTestIsLeftOut(t *testing.T) {
	t.Setenv(clustertest.Variable, "")
	skipped := false
	t.Run("asks", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		clustertest.Need(t)
	})
	require.True(t, skipped)
}
