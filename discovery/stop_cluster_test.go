package discovery_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// What makes a process of this test a gateway: the namespace that it watches, and its kubeconfig.
const (
	asGateway      = "SMG_TEST_GATEWAY_OF"
	withKubeconfig = "SMG_TEST_KUBECONFIG"
)

// TestGatewayProcess is no test: it is the process that the one below starts.
func TestGatewayProcess(t *testing.T) {
	namespace := os.Getenv(asGateway)
	if namespace == "" {
		t.Skip("runs in a process of its own")
	}
	cfg := server.Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort, cfg.LogJSON = "127.0.0.1", 0, "127.0.0.1", 0, true
	cfg.ServiceDiscovery, cfg.PodSelector, cfg.PodPort = true, []string{"app=m"}, clustertest.Port
	cfg.PodNamespaces, cfg.Kubeconfig = []string{namespace}, os.Getenv(withKubeconfig)
	cfg.JobQueueCapacity, cfg.JobQueueConcurrency, cfg.ShutdownGracePeriod = 1, 1, 1
	require.NoError(t, server.Run(t.Context(), cfg))
}

// discovery.md, section 21: D40. The queue is full of registrations that wait for engines which hang, and a pass waits for the queue.
func TestD40ASignalEndsAPassThatWaits(t *testing.T) {
	t.Parallel()
	const pods = 30
	s := newScene(t)
	todo := make([]clustertest.Pod, pods)
	for i, e := range clustertest.StartEngines(t, pods, engine.Config{Keep: -1}) {
		e.SetFaults(engine.Fault{Path: "*", HangHeadMillis: -1})
		todo[i] = pod(fmt.Sprintf("p%d", i), e.IP)
	}
	s.pods.RunAll(t, todo)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel() // kills it, if it has not ended as it should have
	gateway := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestGatewayProcess$")
	gateway.Env = append(os.Environ(), asGateway+"="+s.pods.Name, withKubeconfig+"="+s.pods.Kubeconfig(t, s.proxy))
	out, err := gateway.StdoutPipe()
	require.NoError(t, err)
	gateway.Stderr = gateway.Stdout
	require.NoError(t, gateway.Start())
	var said strings.Builder
	for output := bufio.NewScanner(out); output.Scan(); { // until it has ended
		fmt.Fprintln(&said, output.Text())
		if strings.Contains(output.Text(), "Registering worker") && strings.Count(said.String(), "Registering worker") == 2 {
			require.NoError(t, gateway.Process.Signal(syscall.SIGTERM))
		}
	}
	require.NoError(t, gateway.Wait(), said.String())
	require.Contains(t, said.String(), fmt.Sprintf("Reconciling workers: %d to add, 0 to remove", pods))
	require.Less(t, strings.Count(said.String(), "Registering worker"), pods, "what waits is given up")
	require.NotContains(t, said.String(), "panic")
}
