package kubernetes_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const (
	patience = time.Minute // for a slow machine that does other things as well
	poll     = 50 * time.Millisecond
)

// client keeps no connections, so that none of its goroutines outlive a test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

var programs sync.Map // the path of each program of ours that has been built, by name

// program is one of ours as it is now.
func program(t *testing.T, name string) string {
	t.Helper()
	build, _ := programs.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		binary := filepath.Join(scratch, name)
		out, err := exec.Command("go", "build", "-o", binary, "github.com/smg-go/smg/cmd/"+name).CombinedOutput()
		_, _ = os.Stderr.Write(out)
		return binary, err
	}))
	binary, err := build.(func() (string, error))()
	require.NoError(t, err)
	return binary
}

// start runs a program that ends with the test, and well.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		_ = log.Close()
		if text, _ := os.ReadFile(log.Name()); err != nil || t.Failed() {
			t.Logf("%v says: %s", cmd.Args, text)
		}
		require.NoError(t, err)
	})
}

// status is that of an answer, 0 if there is none.
func status(url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := engine.FreePort()
	require.NoError(t, err)
	return strconv.Itoa(port)
}
