package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/telemetry"
)

// The commands that the demo prints do, in a shell, what the text says. Whoever tries smg sees nothing else first.
func TestDemoPrintsCommandsThatWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("what the demo prints is left out: it needs curl (apt-get install curl)")
	}
	port := unusedPort(t)
	text := startDemo(t, port)
	require.Contains(t, text, "http://127.0.0.1:"+strconv.Itoa(port))
	commands := commandsIn(text)
	require.Len(t, commands, 3)
	chat, workers, metrics := commands[0], commands[1], commands[2]
	engines := regexp.MustCompile(`(?m)^  (http://\S+)$`).FindAllStringSubmatch(text, -1)
	require.Len(t, engines, demoEngines)

	named := regexp.MustCompile(`(?im)^x-smg-routed-worker-id: (\S+)`)
	served := map[string]bool{}
	for range engines {
		out := shell(t, chat)
		require.Greater(t, strings.Count(out, "data: "), 10, "the answer is no stream")
		require.Contains(t, out, "data: [DONE]")
		worker := named.FindStringSubmatch(out)
		require.NotNil(t, worker, out)
		served[worker[1]] = true
	}
	for _, e := range engines {
		require.True(t, served[e[1]], "no request went to %s", e[1])
		require.Contains(t, shell(t, workers), e[1])
		require.Contains(t, shell(t, metrics), `smg_worker_requests_total{model="demo",worker="`+e[1]+`"} 1`)
	}
}

func TestDemoNamesTheFlagForABusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, smg([]string{"demo", "--port", port}, &stdout, &stderr))
	require.Equal(t, "error: port "+port+" of 127.0.0.1 is in use: choose another one with --port\n", stderr.String())
	require.Empty(t, stdout.String(), "commands were printed that do not work")
}

// The port for metrics is found before the gateway binds it: who takes it in between must not end the demo.
func TestDemoTakesAnotherPortForMetrics(t *testing.T) {
	defer func(before func(context.Context, *server.Config) error) { run = before }(run)
	var tried []string
	run = func(_ context.Context, cfg *server.Config) error {
		tried = append(tried, cfg.MetricsAddress())
		if len(tried) > 1 {
			return nil
		}
		taken, err := net.Listen("tcp", cfg.MetricsAddress())
		require.NoError(t, err)
		t.Cleanup(func() { _ = taken.Close() })
		_, err = telemetry.ListenMetrics(cfg.PrometheusHost, cfg.PrometheusPort)
		return err
	}
	require.Equal(t, exitOK, smg([]string{"demo", "--port", strconv.Itoa(unusedPort(t))}, io.Discard, io.Discard))
	require.Len(t, tried, 2)
	require.NotEqual(t, tried[0], tried[1])
}

func TestDemoRefusesAPortThatIsNone(t *testing.T) {
	code, stderr := refused(t, "demo", "--port", "65536")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "--port")
}

// startDemo runs the demo until the test ends, and returns what it prints when it is ready.
func startDemo(t *testing.T, port int) string {
	t.Helper()
	demo := exec.Command("smg", "demo", "--port", strconv.Itoa(port)) // this test's own binary, see TestMain
	demo.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	demo.Stderr = os.Stderr
	out, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	t.Cleanup(func() {
		require.NoError(t, demo.Process.Signal(syscall.SIGINT))
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		require.Empty(t, string(rest), "printed behind its last line")
		require.NoError(t, demo.Wait())
	})
	var text strings.Builder
	lines := bufio.NewReader(out) // reads no further than what is there: the text is one write
	for !strings.Contains(text.String(), "Ctrl-C") {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, text.String())
		text.WriteString(line)
	}
	return text.String()
}

// commandsIn are the indented lines that begin with curl, each with the lines that a backslash continues it with.
func commandsIn(text string) []string {
	return regexp.MustCompile(`(?m)^  curl (?:.*\\\n)*.*$`).FindAllString(text, -1)
}

func shell(t *testing.T, command string) string {
	t.Helper()
	var stderr bytes.Buffer
	shell := exec.Command("sh", "-c", command)
	shell.Stderr = &stderr
	out, err := shell.Output()
	require.NoError(t, err, "%s: %s", command, &stderr)
	return string(out)
}
