package compose_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// get is the body of a 200, "" for anything else.
func get(url string) string {
	resp, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// start runs a program that ends with the test, and well; it returns what the program prints.
func start(t *testing.T, cmd *exec.Cmd) io.Reader {
	t.Helper()
	name := filepath.Base(cmd.Path)
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	printed, err := os.Open(log.Name())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		_, _ = log.Close(), printed.Close()
		if text, _ := os.ReadFile(log.Name()); err != nil || t.Failed() {
			t.Logf("%s says: %s", name, text)
		}
		require.NoError(t, err, name)
	})
	return printed
}

// startEngine runs a mock engine on a port that the system chooses and returns the URL that it prints.
func startEngine(t *testing.T, cmd *exec.Cmd) (url string) {
	t.Helper()
	cmd.Args = append(cmd.Args, "--host=127.0.0.1", "--port=0") // the last one of a flag counts
	printed := start(t, cmd)
	require.Eventually(t, func() bool {
		line, err := bufio.NewReader(printed).ReadString('\n') // a line is written at once
		url = strings.TrimSpace(line)
		return err == nil
	}, patience, poll)
	return url
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := engine.FreePort()
	require.NoError(t, err)
	return port
}

// requireServes waits until the gateway on port is ready, and demands a chat, and metrics that hold all of the texts.
func requireServes(t *testing.T, port, metrics int, texts ...string) {
	t.Helper()
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	require.Eventually(t, func() bool { return get(base+"/readiness") != "" }, patience, poll)
	resp, err := client.Post(base+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	page := get("http://127.0.0.1:" + strconv.Itoa(metrics) + "/metrics")
	for _, text := range append(texts, `endpoint="chat",model="demo"`) {
		require.Contains(t, page, text)
	}
}
