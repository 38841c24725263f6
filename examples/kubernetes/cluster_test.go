package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/smg-go/smg/discovery/clustertest"
)

// What is applied to a real API server is taken by it, grants what smg needs and no more, and serves: smg runs with the arguments
// and the rights of its pod, the engines run as their pods say.
func TestWhatIsAppliedServes(t *testing.T) {
	tests := []struct {
		name       string
		everywhere bool // smg may read the pods of all namespaces
		text       func(t *testing.T, n *clustertest.Namespace) string
	}{
		{"the manifests", false, func(t *testing.T, _ *clustertest.Namespace) string {
			return files(t, "namespace.yaml", "rbac.yaml", "gateway.yaml", "engines.yaml", "engines-multiport.yaml")
		}},
		{"the manifests, for any namespace", true, func(t *testing.T, _ *clustertest.Namespace) string {
			all := files(t, "namespace.yaml", "rbac.yaml", "rbac-cluster.yaml", "gateway.yaml", "engines.yaml", "engines-multiport.yaml")
			return withoutLine(all, "--service-discovery-namespace=$(POD_NAMESPACE)")
		}},
		{"the chart", false, func(t *testing.T, n *clustertest.Namespace) string {
			all := string(n.Helm(t, chart, "--set", "discovery.selector.app=engine"))
			return files(t, "namespace.yaml", "engines.yaml", "engines-multiport.yaml") + all
		}},
		{"the chart, for any namespace", true, func(t *testing.T, n *clustertest.Namespace) string {
			all := string(n.Helm(t, chart, "--set", "discovery.selector.app=engine,discovery.clusterWide=true"))
			return files(t, "namespace.yaml", "engines.yaml", "engines-multiport.yaml") + all
		}},
	}
	cluster := clustertest.Need(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := cluster.Namespace(t)
			n.Revoke(t) // what the harness grants: the rights are to be those of the manifests
			text := strings.ReplaceAll(tt.text(t, n), ": llm\n", ": "+n.Name+"\n")
			n.Apply(t, []byte(text))
			requireRights(t, n, tt.everywhere)
			requireServes(t, n, parse(t, text))
		})
	}
}

// withoutLine takes the one line with some words out of a text.
func withoutLine(text, words string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, words) }), "")
}

// requireServes plays scheduler, kubelet and controllers for what has been applied.
func requireServes(t *testing.T, n *clustertest.Namespace, objects []object) {
	t.Helper()
	want := []string{}
	for _, s := range only[*appsv1.StatefulSet](objects) {
		for i := range int(*s.Spec.Replicas) {
			want = append(want, runEngine(t, n, fmt.Sprintf("%s-%d", s.Name, i), s.Spec.Template)...)
		}
	}
	require.Len(t, want, 5) // three pods of one engine, and one of two
	d := only[*appsv1.Deployment](objects)[0]
	createPod(t, n, d.Name+"-0", d.Spec.Template) // the API server holds it to the standard that the namespace asks for

	smg, kubeconfig := d.Spec.Template.Spec.Containers[0], n.Kubeconfig(t, nil)
	g := startGateway(t, smg, n.Name, kubeconfig)
	require.Eventually(t, func() bool { return status(g.probes+"/readiness") == http.StatusOK }, patience, poll)
	slices.Sort(want)
	require.Eventually(t, func() bool { return slices.Equal(want, ready(g)) }, patience, poll)
	resp, err := client.Post(g.http+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, http.StatusOK, status(g.metrics+"/metrics"))
	requireWell(t, arguments(smg, n.Name), kubeconfig, want)
}

// requireWell asks `smg doctor kubernetes` with the arguments of the gateway, as the pages tell their readers to: nothing is to be done.
func requireWell(t *testing.T, args []string, kubeconfig string, urls []string) {
	t.Helper()
	cmd := exec.Command(program(t, "smg"), append([]string{"doctor", "kubernetes"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, url := range urls {
		require.Contains(t, string(out), strings.TrimPrefix(url, "http://"))
	}
}

// runEngine makes a pod, runs its containers on an address of its own, and says that it is ready. It returns the URLs.
func runEngine(t *testing.T, n *clustertest.Namespace, name string, template corev1.PodTemplateSpec) (urls []string) {
	t.Helper()
	createPod(t, n, name, template)
	ip := clustertest.IP(t)
	for _, c := range template.Spec.Containers {
		start(t, exec.Command(program(t, "mockengine"), append(slices.Clone(c.Args), "--host="+ip)...))
		url := fmt.Sprintf("http://%s:%d", ip, c.Ports[0].ContainerPort)
		require.Eventually(t, func() bool { return status(url+c.ReadinessProbe.HTTPGet.Path) == http.StatusOK }, patience, poll)
		urls = append(urls, url)
	}
	n.Ready(t, name, ip)
	return urls
}

// createPod is what the controller of a workload does, and the scheduler.
func createPod(t *testing.T, n *clustertest.Namespace, name string, template corev1.PodTemplateSpec) {
	t.Helper()
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Spec.NodeName = name, "fake"
	text, err := json.Marshal(pod)
	require.NoError(t, err)
	n.Apply(t, text)
}

// ready are the URLs of the workers that serve, sorted.
func ready(g gateway) (urls []string) {
	resp, err := client.Get(g.http + "/workers")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var list struct {
		Workers []struct{ URL, Status string }
	}
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	for _, w := range list.Workers {
		if w.Status == "ready" {
			urls = append(urls, w.URL)
		}
	}
	slices.Sort(urls)
	return urls
}
