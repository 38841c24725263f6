//go:build unix

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asGateway makes a process of this test a gateway in front of the worker that it names.
const asGateway = "SMG_TEST_GATEWAY_FOR"

// What else it is told: its grace period in seconds, and the port of its probes.
const (
	withGrace  = "SMG_TEST_GATEWAY_GRACE"
	withProbes = "SMG_TEST_GATEWAY_PROBES"
)

// TestGatewayProcess is no test: it is the process that the one below starts.
func TestGatewayProcess(t *testing.T) {
	worker := os.Getenv(asGateway)
	if worker == "" {
		t.Skip("runs in a process of its own")
	}
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.LogJSON, cfg.ShutdownGracePeriod, cfg.WorkerURLs = true, 7200, []string{worker}
	if grace, err := strconv.Atoi(os.Getenv(withGrace)); err == nil {
		cfg.ShutdownGracePeriod = Seconds(grace)
	}
	if port, err := strconv.Atoi(os.Getenv(withProbes)); err == nil {
		cfg.HealthCheckPort = &port
	}
	require.NoError(t, Run(t.Context(), cfg))
}

// process is a gateway in a process of its own.
type process struct {
	*exec.Cmd
	URL   string
	lines *bufio.Scanner
	log   []map[string]any // lines so far
}

func startProcess(t *testing.T, worker string, more ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel) // kills it, if it has not ended as it should have
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], "-test.run=^TestGatewayProcess$")}
	p.Env = append(append(os.Environ(), asGateway+"="+worker), more...)
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

// status is how a path is answered on a new connection; 0: not at all.
func status(url string) int {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// stream begins a streamed answer, once the gateway is ready.
func (p *process) stream(t *testing.T) io.Reader {
	t.Helper()
	require.Eventually(t, func() bool { return status(p.URL+"/readiness") == http.StatusOK }, patience, 5*time.Millisecond, "it is never ready")
	resp, err := http.Post(p.URL+chatPath, "application/json", strings.NewReader(chats))
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp.Body
}

// ends reads the log to its end, which is that of the process, and waits for that.
func (p *process) ends(t *testing.T) {
	t.Helper()
	for p.lines.Scan() { // Wait closes the pipe
	}
	require.NoError(t, p.Wait())
}

// workers.md section 21, http-dataplane.md section 13, cli.md section 9: one signal, and what becomes of streams and new connections.
func TestOneSignalEndsAProcessInOrder(t *testing.T) {
	t.Parallel() // it waits
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	require.NoError(t, free.Close())
	probes := "http://127.0.0.1:" + port

	t.Run("a stream that ends in the settle window completes, and so does the process behind it", func(t *testing.T) {
		w, finish := playedStream(t)
		p := startProcess(t, w.URL, withGrace+"=4", withProbes+"="+port)
		body := p.stream(t)
		require.Equal(t, http.StatusOK, status(probes+"/readiness"))
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		line := p.says(t, "shutdown begins")
		require.Equal(t, "terminated", line["signal"])
		require.EqualValues(t, 1, line["in_flight"])
		require.Equal(t, "2s", p.says(t, "draining")["settle"])
		require.Equal(t, http.StatusServiceUnavailable, status(p.URL+"/readiness"))
		require.Equal(t, http.StatusServiceUnavailable, status(probes+"/readiness"))
		require.Equal(t, http.StatusOK, status(p.URL+"/health"))
		require.Equal(t, http.StatusOK, status(p.URL+"/v1/models"), "a new connection is served")
		finish()
		whole, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(whole))
		p.says(t, "drained")
		p.ends(t)
		require.Zero(t, status(p.URL+"/health"))
		require.Zero(t, status(probes+"/health"))
	})
	t.Run("one that does not end is cut when the grace period is over, and counted", func(t *testing.T) {
		w, _ := playedStream(t)
		p := startProcess(t, w.URL, withGrace+"=2", withProbes+"="+port)
		body := p.stream(t)
		require.NoError(t, p.Process.Signal(os.Interrupt))
		require.Equal(t, "1s", p.says(t, "draining")["settle"])
		require.Eventually(t, func() bool { return status(p.URL+"/health") == 0 }, patience, time.Millisecond, "nobody new is let in")
		require.Equal(t, http.StatusOK, status(probes+"/health"), "probes are answered to the end")
		line := p.says(t, "grace period over, cutting what is left")
		require.Equal(t, "WARN", line["level"])
		require.EqualValues(t, 1, line["remaining"])
		_, err := io.ReadAll(body)
		require.Error(t, err)
		p.ends(t)
	})
	t.Run("without a grace period everything ends at once", func(t *testing.T) {
		w, _ := playedStream(t)
		p := startProcess(t, w.URL, withGrace+"=0")
		body := p.stream(t)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Equal(t, "0s", p.says(t, "draining")["settle"])
		_, err := io.ReadAll(body)
		require.Error(t, err)
		p.ends(t)
	})
}

// DECISIONS.md rows 49 and 50: the first signal drains, the second ends the settle window, the third ends the process.
func TestSignalsOfAProcess(t *testing.T) {
	w, finish := playedStream(t)
	t.Run("three end it at once", func(t *testing.T) {
		p := startProcess(t, w.URL)
		body := p.stream(t)
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
		body := p.stream(t)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		p.says(t, "draining")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		p.says(t, "second signal: the settle window ends")
		finish()
		whole, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(whole))
		p.says(t, "exiting")
		p.ends(t)
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
