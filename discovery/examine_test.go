package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Why a pod is no worker
func TestExamineSaysWhatAPodComesTo(t *testing.T) {
	gated := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/attached"}, {ConditionType: "warm"}}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady"},
			{Type: "warm", Status: corev1.ConditionFalse},
		}
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want PodFinding
	}{
		{"a worker", readyPod("p", "10.0.0.1"), PodFinding{Role: "regular", Matches: true, Workers: []string{"10.0.0.1:8000"}}},
		{
			"not Ready", readyPod("p", "10.0.0.1", unready),
			PodFinding{Role: "regular", Matches: true, Notes: []string{"it is not Ready: its condition Ready is False"}},
		},
		{
			"readiness gates", readyPod("p", "10.0.0.1", gated),
			PodFinding{Role: "regular", Matches: true, Notes: []string{
				"it is not Ready: ReadinessGatesNotReady", "its readiness gate lb/attached has not been reported on", "its readiness gate warm is False",
			}},
		},
		{"no address", readyPod("p", ""), PodFinding{Role: "regular", Matches: true, Notes: []string{"it has no IP address yet"}}},
		{
			"being deleted", readyPod("p", "10.0.0.1", deleting(time.Unix(1, 0))),
			PodFinding{Role: "regular", Matches: true, Notes: []string{"it is being deleted"}},
		},
		{
			"a phase", readyPod("p", "10.0.0.1", phase(corev1.PodSucceeded)),
			PodFinding{Role: "regular", Matches: true, Notes: []string{"its phase is Succeeded, not Running"}},
		},
		{
			"a label that differs", readyPod("p", "10.0.0.1", label("app", "x")),
			PodFinding{Notes: []string{"its label app is 'x' (wanted: 'w')"}},
		},
		{
			"a bad annotation of a worker", readyPod("p", "10.0.0.1", annotation("smg.ai/worker-ports", "x")),
			PodFinding{
				Role: "regular", Matches: true, Workers: []string{"10.0.0.1:8000"},
				Notes: []string{"invalid smg.ai/worker-ports annotation 'x', falling back to port 8000"},
			},
		},
		{
			"a bad annotation of a pod that is no worker yet", readyPod("p", "10.0.0.1", unready, annotation("smg.ai/worker-ports", "x")),
			PodFinding{Role: "regular", Matches: true, Notes: []string{
				"it is not Ready: its condition Ready is False", "invalid smg.ai/worker-ports annotation 'x', falling back to port 8000",
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := regular()
			got := s.finding(tt.pod)
			tt.want.Namespace, tt.want.Name = "ns", "p"
			require.ElementsMatch(t, tt.want.Workers, got.Workers)
			require.ElementsMatch(t, tt.want.Notes, got.Notes)
			got.Workers, got.Notes = tt.want.Workers, tt.want.Notes
			require.Equal(t, tt.want, got)
		})
	}
	s := byRole()
	require.Equal(t, []string{
		"encode: it has no label role (wanted: 'encode')", "prefill: it has no label role (wanted: 'prefill')", "decode: it has no label role (wanted: 'decode')",
	}, s.finding(readyPod("p", "10.0.0.1")).Notes)
}

// examine examines a server, or what is not one.
func examine(t *testing.T, a *apiServer, change func(*KubernetesSettings)) Examination {
	t.Helper()
	s := regular()
	s.Kubeconfig, s.pace = a.kubeconfig(`"token": "t"`), new(defaultPace)
	if change != nil {
		change(&s)
	}
	e, err := Examine(t.Context(), s)
	require.NoError(t, err)
	return e
}

// What the doctor finds.
func TestExamineFindsNothingWrongWhereAllIsWell(t *testing.T) {
	a := startAPI(t, readyPod("b", "10.0.0.2"), readyPod("a", "10.0.0.1"), readyPod("0", "10.0.0.3", label("app", "x")))
	e := examine(t, a, func(s *KubernetesSettings) { s.Namespaces = []string{"ns"} })
	require.Empty(t, e.Problems)
	require.Equal(t, "v1.36.3", e.Version)
	require.Equal(t, a.URL, e.Server)
	require.Contains(t, e.Credentials, "kubeconfig "+string(filepath.Separator))
	require.Equal(t, []Right{{Verb: "list", Resource: "pods", Namespace: "ns", Allowed: true}, {Verb: "watch", Resource: "pods", Namespace: "ns", Allowed: true}}, e.Rights)
	var order []string
	for _, p := range e.Pods {
		order = append(order, p.Name)
	}
	require.Equal(t, []string{"a", "b", "0"}, order, "those that match come first")
	text, err := json.Marshal(e.Pods[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"namespace": "ns", "name": "a", "role": "regular", "matches": true, "workers": ["10.0.0.1:8000"], "notes": []}`, string(text))
}

// Errors in plain words
func TestExamineSaysWhatIsWrong(t *testing.T) {
	status := func(code int, reason, message string) script {
		return func(w http.ResponseWriter, _ *http.Request, _ bool) bool { fail(w, code, reason, message); return true }
	}
	tests := []struct {
		name     string
		server   func(t *testing.T) *apiServer
		settings func(*KubernetesSettings)
		problems []string // parts, in order
	}{
		{"there are no pods", func(t *testing.T) *apiServer { return startAPI(t) }, nil, []string{"There are no pods in the cluster."}},
		{
			"no pod matches", func(t *testing.T) *apiServer { return startAPI(t, readyPod("a", "10.0.0.1", label("app", "x"))) },
			func(s *KubernetesSettings) { s.Namespaces = []string{"ns"} },
			[]string{"No pod in the namespace ns matches, of 1: selector: 'app=w'."},
		},
		{"no pod is Ready", func(t *testing.T) *apiServer { return startAPI(t, readyPod("a", "10.0.0.1", unready)) }, nil, []string{"No pod that matches is a worker now, of 1."}},
		{
			"an annotation is wrong", func(t *testing.T) *apiServer {
				return startAPI(t, readyPod("a", "10.0.0.1", annotation("smg.ai/worker-ports", "x")))
			}, nil,
			[]string{"The pod ns/a: invalid smg.ai/worker-ports annotation 'x', falling back to port 8000."},
		},
		{
			"two pods are at one address", func(t *testing.T) *apiServer {
				return startAPI(t, readyPod("a", "10.0.0.1"), readyPod("b", "10.0.0.1"))
			}, nil,
			[]string{"The pod ns/a: the pod ns/b is at 10.0.0.1:8000 as well", "The pod ns/b: the pod ns/a is at 10.0.0.1:8000 as well"},
		},
		{
			"a right is missing", func(t *testing.T) *apiServer {
				a := startAPI(t, readyPod("a", "10.0.0.1"))
				a.denied = map[string]string{"watch": "no RBAC policy matched"}
				return a
			}, func(s *KubernetesSettings) { s.Namespaces = []string{"ns"} },
			[]string{"These credentials may not watch pods in the namespace ns."},
		},
		{
			"the list is refused, whatever the review says", func(t *testing.T) *apiServer {
				a := startAPI(t)
				a.play(status(http.StatusForbidden, "Forbidden", "pods is forbidden"))
				return a
			}, nil,
			[]string{"The pods in all namespaces cannot be listed: it refuses (403): pods is forbidden."},
		},
		{
			"the token is wrong", func(t *testing.T) *apiServer { a := startTLS(t); a.token = "other"; return a }, nil,
			[]string{"does not know these credentials (401)"},
		},
		{
			"nobody listens", func(t *testing.T) *apiServer {
				a := startAPI(t)
				a.Close()
				return a
			}, nil,
			[]string{"nobody listens there"},
		},
		{
			"another certificate", func(t *testing.T) *apiServer { return startTLS(t) },
			func(s *KubernetesSettings) { s.Kubeconfig = withoutAuthority(s.Kubeconfig) },
			[]string{"its certificate is not trusted"},
		},
		{
			"it is no API server", func(t *testing.T) *apiServer {
				a := newAPI(t)
				a.Server = httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(a.stop)
				return a
			}, nil,
			[]string{"does not say whether smg may list", "does not say whether smg may watch", "cannot be listed"},
		},
		{
			"it is a web page", func(t *testing.T) *apiServer {
				a := newAPI(t)
				a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
				t.Cleanup(a.stop)
				return a
			}, nil,
			[]string{"it does not answer as an API server does"},
		},
		{
			"it does not answer", func(t *testing.T) *apiServer {
				a := newAPI(t)
				a.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
				t.Cleanup(a.stop)
				return a
			}, func(s *KubernetesSettings) { s.pace.list = 10 * time.Millisecond },
			[]string{"did not answer in time"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := examine(t, tt.server(t), tt.settings)
			require.Len(t, e.Problems, len(tt.problems), "%q", e.Problems)
			for i, part := range tt.problems {
				require.Contains(t, e.Problems[i], part)
			}
		})
	}
}

// withoutAuthority takes the certificate authority out of a kubeconfig.
func withoutAuthority(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		panic(err)
	}
	delete(config["clusters"].([]any)[0].(map[string]any)["cluster"].(map[string]any), "certificate-authority-data")
	text, _ = json.Marshal(config)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		panic(err)
	}
	return path
}

// discovery.md, section 15; DECISIONS.md 9
func TestWhereCredentialsAreLookedFor(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	require.ErrorContains(t, CheckCredentials(""), "no credentials: $KUBECONFIG is not set, this is no pod of a cluster, and there is no "+dir)

	a := startAPI(t)
	config := a.kubeconfig(`"token": "t"`)
	home := filepath.Join(dir, ".kube", "config")
	require.NoError(t, os.MkdirAll(filepath.Dir(home), 0o700))
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(home, text, 0o600))
	sourceOf := func(kubeconfig string) string {
		c, err := newClient(kubeconfig)
		require.NoError(t, err)
		return c.source
	}
	require.Equal(t, "kubeconfig "+home, sourceOf(""))
	t.Setenv("KUBECONFIG", config)
	require.Equal(t, "$KUBECONFIG "+config, sourceOf(""))
	require.Equal(t, "kubeconfig "+home, sourceOf(home), "a path that was given comes first")
	missing := filepath.Join(dir, "missing")
	require.ErrorContains(t, CheckCredentials(missing), "is not there, or names no cluster", "and nothing comes after it")
	t.Setenv("KUBECONFIG", missing+string(filepath.ListSeparator)+config)
	require.NoError(t, CheckCredentials(""), "of several some may be missing")
	require.NoError(t, os.WriteFile(missing, []byte("{"), 0o600))
	require.ErrorContains(t, CheckCredentials(missing), "cannot be read")
}
