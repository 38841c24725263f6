package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// The official openai client works against the built gateway in front of three engines: plain and streamed, errors as typed
// exceptions, 50 streams at once.
func TestOpenAIClient(t *testing.T) {
	python := os.Getenv("SMG_TEST_PYTHON")
	if python == "" {
		t.Skip("left out: set SMG_TEST_PYTHON to a Python with the packages that .ci/run installs")
	}
	base := startBuilt(t, engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{Engine: engine.VLLM}))
	out, err := exec.Command(python, filepath.Join("testdata", "clients", "openai_client.py"), base).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "ok\n", string(out))
}

// startBuilt builds the program, starts it in front of the engines, and returns its URL once it is ready.
func startBuilt(t *testing.T, engines ...*engine.Running) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "smg")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))

	port := unusedPort(t)
	args := []string{
		"launch", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", "0",
		"--log-level", "error", "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0", "--worker-urls",
	}
	for _, e := range engines {
		args = append(args, e.URL)
	}
	gateway := exec.Command(binary, args...)
	gateway.Stdout, gateway.Stderr = os.Stderr, os.Stderr
	require.NoError(t, gateway.Start())
	t.Cleanup(func() {
		_ = gateway.Process.Signal(syscall.SIGTERM)
		require.NoError(t, gateway.Wait())
		http.DefaultClient.CloseIdleConnections()
	})
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	require.Eventually(t, func() bool { return isReady(t, base) }, 20*time.Second, 10*time.Millisecond)
	return base
}

func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func isReady(t *testing.T, base string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+"/readiness", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
