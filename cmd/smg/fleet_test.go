package main

import (
	"bufio"
	"encoding/json"
	"io"
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

// fleet is the built gateway in front of three engines.
type fleet struct {
	url     string
	engines []*engine.Running
}

// built builds the program as users do, and returns its path.
func built(tb testing.TB) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "smg")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(tb, err, string(out))
	return binary
}

// startFleet starts engines and a gateway that has registered all of them.
func startFleet(t *testing.T, binary string) *fleet {
	t.Helper()
	f := &fleet{url: "http://127.0.0.1:" + strconv.Itoa(unusedPort(t))}
	for _, kind := range []engine.Kind{engine.SGLang, engine.SGLang, engine.VLLM} {
		f.engines = append(f.engines, engine.Start(t, engine.Config{Engine: kind, Reply: 5000}))
	}
	_, port, err := net.SplitHostPort(f.url[len("http://"):])
	require.NoError(t, err)
	args := append([]string{
		"launch", "--policy", "round_robin", "--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0",
		"--log-level", "error", "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0",
		// engines fail on purpose here, check after check: no breaker may remember it
		"--disable-circuit-breaker", "--retry-initial-backoff-ms", "1", "--retry-max-backoff-ms", "10",
		"--max-payload-size", strconv.Itoa(maxPayload), "--worker-urls",
	}, f.urls()...)
	gateway := exec.Command(binary, args...)
	gateway.Stdout, gateway.Stderr = os.Stderr, os.Stderr
	require.NoError(t, gateway.Start())
	t.Cleanup(func() {
		require.NoError(t, gateway.Process.Signal(syscall.SIGTERM))
		require.NoError(t, gateway.Wait())
		http.DefaultClient.CloseIdleConnections()
	})
	require.Eventually(t, func() bool { return f.countReady() == len(f.engines) }, 30*time.Second, 10*time.Millisecond)
	return f
}

func (f *fleet) urls() []string {
	var urls []string
	for _, e := range f.engines {
		urls = append(urls, e.URL)
	}
	return urls
}

// arm gives every engine these faults and an empty log.
func (f *fleet) arm(faults []engine.Fault) {
	for _, e := range f.engines {
		e.SetFaults(faults...)
		e.ClearRequests()
	}
}

// asked are the inference requests that came to any engine since arm.
func (f *fleet) asked() []engine.Request {
	var asked []engine.Request
	for _, e := range f.engines {
		for _, r := range e.Requests() {
			if r.Method == http.MethodPost {
				asked = append(asked, r)
			}
		}
	}
	return asked
}

// requireQuiet demands that soon nothing is in flight any more, in the engines' eyes and in the gateway's.
func (f *fleet) requireQuiet(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, e := range f.engines {
			if e.State().InFlight != 0 {
				return false
			}
		}
		for _, w := range f.workers() {
			if w.Load != 0 {
				return false
			}
		}
		return f.countReady() == len(f.engines)
	}, 30*time.Second, 10*time.Millisecond, "something is still in flight, or a worker has left")
}

// workerView is what the tests read of a worker at /workers.
type workerView struct {
	URL       string `json:"url"`
	IsHealthy bool   `json:"is_healthy"`
	Load      int    `json:"load"`
}

// workers are the gateway's, none while it does not answer.
func (f *fleet) workers() []workerView {
	resp, err := http.Get(f.url + "/workers")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list struct{ Workers []workerView }
	if json.NewDecoder(resp.Body).Decode(&list) != nil {
		return nil
	}
	return list.Workers
}

func (f *fleet) countReady() int {
	n := 0
	for _, w := range f.workers() {
		if w.IsHealthy {
			n++
		}
	}
	return n
}

// isOK asks once, on a connection of its own, and tells whether the answer is 200.
func isOK(tb testing.TB, url string) bool {
	tb.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func unusedPort(tb testing.TB) int {
	tb.Helper()
	port, err := engine.FreePort()
	require.NoError(tb, err)
	return port
}

// client is a Python process that runs checks; see testdata/clients/checks.py.
type client struct {
	orders  io.Writer
	answers *bufio.Scanner
}

// pythonForClients skips the test where there is no Python with the clients.
func pythonForClients(t *testing.T) string {
	t.Helper()
	python := os.Getenv("SMG_TEST_PYTHON")
	if python == "" {
		t.Skip("the official clients are left out: set SMG_TEST_PYTHON to a Python with the packages that .ci/run installs")
	}
	return python
}

func startClient(t *testing.T, python, file string) *client {
	t.Helper()
	process := exec.Command(python, "-B", filepath.Join("testdata", "clients", file))
	process.Stderr = os.Stderr
	orders, err := process.StdinPipe()
	require.NoError(t, err)
	answers, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = orders.Close() // the end of its work
		require.NoError(t, process.Wait())
	})
	return &client{orders: orders, answers: bufio.NewScanner(answers)}
}

// run has one check done, fails the test if it does not hold, and returns what it has seen.
func (c *client) run(t *testing.T, order map[string]any) json.RawMessage {
	t.Helper()
	line, err := json.Marshal(order)
	require.NoError(t, err)
	_, err = c.orders.Write(append(line, '\n'))
	require.NoError(t, err)
	require.True(t, c.answers.Scan(), "the client has ended")
	var answer struct {
		Failure *string
		Seen    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(c.answers.Bytes(), &answer))
	if answer.Failure != nil {
		t.Fatal(*answer.Failure)
	}
	return answer.Seen
}
