package kubernetes_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Every engine's container, run as a process of this machine, passes the probes that its pod has.
func TestEnginesPassTheirProbes(t *testing.T) {
	binary := program(t, "mockengine")
	for _, w := range workloads(manifests(t)) {
		for _, c := range w.pod.Spec.Containers {
			if c.Image != "smg-mockengine" {
				continue
			}
			t.Run(w.name+"/"+c.Name, func(t *testing.T) {
				require.Contains(t, c.Args, "--host=0.0.0.0", "its default is loopback, which smg does not reach")
				port := freePort(t)
				start(t, exec.Command(binary, slices.Concat(c.Args, []string{"--host=127.0.0.1", "--port=" + port})...))
				for _, p := range []*corev1.Probe{c.ReadinessProbe, c.StartupProbe} {
					if p != nil {
						require.Eventually(t, func() bool { return status("http://127.0.0.1:"+port+p.HTTPGet.Path) == http.StatusOK }, patience, poll)
					}
				}
			})
		}
	}
}

// discovery.md, section 19: a gateway whose API server cannot be reached lives, is not ready, and says both where its pod is asked.
func TestGatewaysAnswerTheirProbes(t *testing.T) {
	for _, w := range gateways(manifests(t)) {
		c := w.pod.Spec.Containers[0]
		probes := startGateway(t, c, w.object.GetNamespace(), unreachable(t)).probes
		require.Eventually(t, func() bool { return status(probes+c.LivenessProbe.HTTPGet.Path) == http.StatusOK }, patience, poll)
		require.Equal(t, http.StatusServiceUnavailable, status(probes+c.ReadinessProbe.HTTPGet.Path))
	}
}

// gateway is a container of smg that runs as a process: the URLs of its ports.
type gateway struct{ http, metrics, probes string }

// startGateway runs a container's arguments with a kubeconfig in place of the service account, and ports that are free here.
func startGateway(t *testing.T, c corev1.Container, namespace, kubeconfig string, more ...string) gateway {
	t.Helper()
	main, metrics, probes := freePort(t), freePort(t), freePort(t)
	args := append(arguments(c, namespace), "--host=127.0.0.1", "--port="+main, "--prometheus-host=127.0.0.1", "--prometheus-port="+metrics,
		"--health-check-port="+probes, "--shutdown-grace-period-secs=0") // the last one of a flag counts
	cmd := exec.Command(program(t, "smg"), append(args, more...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	start(t, cmd)
	return gateway{"http://127.0.0.1:" + main, "http://127.0.0.1:" + metrics, "http://127.0.0.1:" + probes}
}

// unreachable is a kubeconfig of a server that is not there.
func unreachable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:`+freePort(t)+`"}}]
users: [{name: none, user: {}}]
`), 0o600))
	return path
}
