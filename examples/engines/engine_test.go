package engines_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mockengine "github.com/smg-go/smg/cmd/mockengine/engine"
)

// startLimit is how long an engine may take to answer; one that takes longer is NOT RUN.
const startLimit = 10 * time.Minute

// kind is what there is to know about an engine before it runs.
type kind struct {
	name      string
	script    string
	model     string   // distinct, so that requests can be directed to this kind
	args      []string // for the engine
	runtime   string   // what smg detects
	running   string   // the metric that counts requests it works on
	endless   int      // max_tokens of a stream that nobody waits for
	newTokens string   // the metric that counts generated tokens, if a stream ends by itself
}

var (
	vLLM = kind{
		name: "vLLM", script: "vllm-cpu.sh", model: "tiny-vllm", runtime: "vllm",
		running: "vllm:num_requests_running", newTokens: "vllm:generation_tokens_total", endless: 4000,
	}
	// The tiny model makes thousands of tokens in a second. With a context that moves on, a stream of it never ends by itself.
	llamaCPP = kind{
		name: "llama.cpp", script: "llama-cpp.sh", model: "tiny-llama", runtime: "generic", args: []string{"--context-shift"},
		running: "llamacpp:requests_processing", endless: 100_000_000,
	}
)

// installed tells whether the engine can start at once.
func (k kind) installed(dir string) bool {
	return exec.Command("bash", k.script, dir, "installed").Run() == nil
}

// engine is one real engine, up or on its way.
type engine struct {
	kind
	url     string
	port    int
	dir     string
	process *process
	began   time.Time
}

// start begins to start an engine that ends with t.
func (k kind) start(t *testing.T, dir string) *engine {
	t.Helper()
	e := &engine{kind: k, dir: dir, port: unusedPort(t)}
	e.url = "http://127.0.0.1:" + strconv.Itoa(e.port)
	e.restart(t)
	return e
}

// restart starts the engine, which must not run, on the port that it had.
func (e *engine) restart(t *testing.T) {
	t.Helper()
	e.began = time.Now()
	args := append([]string{e.script, e.dir, "start", strconv.Itoa(e.port)}, e.args...)
	e.process = run(t, []string{"MODEL_NAME=" + e.model}, "bash", args...)
}

// up waits until the engine answers. The error says why it will not.
func (e *engine) up(t *testing.T, limit time.Duration) error {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for patience := time.After(limit); ; {
		if resp, err := client.Get(e.url + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Logf("%s answers, %.1f s after its start", e.name, time.Since(e.began).Seconds())
				return nil
			}
		}
		select {
		case <-e.process.gone:
			return fmt.Errorf("it ended while it started; its last line: %s", e.process.tail(1))
		case <-patience:
			return fmt.Errorf("it does not answer after %s; its last line: %s", limit.Round(time.Second), e.process.tail(1))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// unusedPort is a port that the system gives to nobody by itself: an engine binds it only after a minute, and again after it was killed.
func unusedPort(t *testing.T) int {
	t.Helper()
	port, err := mockengine.FreePort()
	require.NoError(t, err)
	return port
}
