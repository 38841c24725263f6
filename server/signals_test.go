//go:build unix

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asGateway makes a process of this test a gateway in front of the worker that it names.
const asGateway = "SMG_TEST_GATEWAY_FOR"

// TestGatewayProcess is no test: it is the process that the one below starts.
func TestGatewayProcess(t *testing.T) {
	worker := os.Getenv(asGateway)
	if worker == "" {
		t.Skip("runs in a process of its own")
	}
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.LogJSON, cfg.ShutdownGracePeriod, cfg.WorkerURLs = true, 7200, []string{worker}
	require.NoError(t, Run(t.Context(), cfg))
}

// process is a gateway in a process of its own.
type process struct {
	*exec.Cmd
	URL   string
	lines *bufio.Scanner
	log   []map[string]any // lines so far
}

func startProcess(t *testing.T, worker string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel) // kills it, if it has not ended as it should have
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], "-test.run=^TestGatewayProcess$")}
	p.Env = append(os.Environ(), asGateway+"="+worker)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.lines = bufio.NewScanner(out)
	address, _ := p.says(t, "router ready")["address"].(string)
	p.URL = "http://" + address
	return p
}

// says waits for a line of the log.
func (p *process) says(t *testing.T, message string) map[string]any {
	t.Helper()
	for p.lines.Scan() {
		if !strings.HasPrefix(p.lines.Text(), "{") {
			continue // of the test itself
		}
		line := map[string]any{}
		require.NoError(t, json.Unmarshal(p.lines.Bytes(), &line), p.lines.Text())
		p.log = append(p.log, line)
		if line["message"] == message {
			return line
		}
	}
	t.Fatalf("the gateway never says %q, but: %v", message, p.log)
	return nil
}

// DECISIONS.md rows 49 and 50: the first signal drains, the second ends the settle window, the third ends the process.
func TestSignalsOfAProcess(t *testing.T) {
	w, finish := playedStream(t)
	stream := func(t *testing.T, p *process) io.Reader {
		require.Eventually(t, func() bool {
			resp, err := http.Get(p.URL + "/readiness")
			require.NoError(t, err)
			return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		}, patience, 5*time.Millisecond, "it is never ready")
		resp, err := http.Post(p.URL+chatPath, "application/json", strings.NewReader(chats))
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Body
	}
	t.Run("three end it at once", func(t *testing.T) {
		p := startProcess(t, w.URL)
		body := stream(t, p)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		p.says(t, "draining")
		require.NoError(t, p.Process.Signal(syscall.SIGINT))
		p.says(t, "second signal: the settle window ends")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		var exit *exec.ExitError
		require.ErrorAs(t, p.Wait(), &exit)
		require.Equal(t, 1, exit.ExitCode())
		_, err := io.ReadAll(body)
		require.Error(t, err)
	})
	t.Run("two let it end well", func(t *testing.T) {
		p := startProcess(t, w.URL)
		body := stream(t, p)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		p.says(t, "draining")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		p.says(t, "second signal: the settle window ends")
		finish()
		whole, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(whole))
		p.says(t, "exiting")
		for p.lines.Scan() { // to the end: Wait closes the pipe
		}
		require.NoError(t, p.Wait())
		open := 0
		for _, line := range p.log {
			if text, _ := line["message"].(string); strings.Contains(text, "without authentication") {
				require.Equal(t, "WARN", line["level"])
				open++
			}
		}
		require.Equal(t, 1, open, "one warning names what is open")
	})
}
