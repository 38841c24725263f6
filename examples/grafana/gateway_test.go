package grafana_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// gateway is a built smg in front of engines of which some fail.
type gateway struct{ url, metrics string }

// startGateway builds and starts smg. Model m1 has a good engine, one that refuses or cuts requests, and one that has died;
// the only engine of model m2 fails always, so that requests fail for good and its breaker opens.
func startGateway(t *testing.T) gateway {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "smg")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/smg-go/smg/cmd/smg").CombinedOutput()
	require.NoError(t, err, string(out))

	good := engine.Start(t, engine.Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond})
	flaky := engine.Start(t, engine.Config{Engine: engine.VLLM})
	dying := engine.Start(t, engine.Config{})
	broken := engine.Start(t, engine.Config{Models: []string{"m2"}})
	port, metrics := freePort(t), freePort(t)
	cmd := exec.Command(binary, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--prometheus-host", "127.0.0.1", "--prometheus-port", strconv.Itoa(metrics), "--log-level", "error", "--enable-igw",
		"--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "1",
		"--cb-failure-threshold", "3", "--cb-timeout-duration-secs", "1", "--retry-initial-backoff-ms", "1", "--retry-max-retries", "3",
		"--shutdown-grace-period-secs", "0", "--worker-urls", good.URL, flaky.URL, dying.URL, broken.URL)
	cmd.Env = append(os.Environ(), "GOGC=20") // else little garbage is never collected, and there are no pauses to show
	run(t, cmd)
	g := gateway{"http://127.0.0.1:" + strconv.Itoa(port), "127.0.0.1:" + strconv.Itoa(metrics)}
	require.Eventually(t, func() bool { return status(g.url+"/readiness") == http.StatusOK }, patience, 50*time.Millisecond)

	flaky.SetFaults(engine.Fault{Status: http.StatusServiceUnavailable, Probability: 0.3}, engine.Fault{Reset: true, Probability: 0.3})
	broken.SetFaults(engine.Fault{Status: http.StatusInternalServerError})
	dying.Down()
	return g
}

// traffic sends plain, streamed and failing requests, and leaves some streams before their end, until the test ends.
func (g gateway) traffic(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	t.Cleanup(func() {
		stop()
		sending.Wait()
	})
	for _, send := range []func(context.Context){
		func(ctx context.Context) { g.chat(ctx, `"model":"m1"`) },
		func(ctx context.Context) {
			g.chat(ctx, `"model":"m1","stream":true,"stream_options":{"include_usage":true}`)
		},
		func(ctx context.Context) { g.chat(ctx, `"model":"m2"`) },
		func(ctx context.Context) { g.chat(ctx, `"model":"nobody-serves-it"`) },
		g.leave,
	} {
		sending.Go(func() {
			for ctx.Err() == nil {
				send(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond): // enough of each, and a machine that has room for Prometheus
				}
			}
		})
	}
}

func (g gateway) chat(ctx context.Context, fields string) {
	resp, err := g.post(ctx, fields)
	if err != nil {
		return // it may fail: the engines do
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// leave closes the connection in the middle of a stream.
func (g gateway) leave(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := g.post(ctx, `"model":"m1","stream":true,"max_tokens":1000`)
	if err != nil {
		return
	}
	_, _ = resp.Body.Read(make([]byte, 1))
	_ = resp.Body.Close()
}

func (g gateway) post(ctx context.Context, fields string) (*http.Response, error) {
	body := `{` + fields + `,"messages":[{"role":"user","content":"Hello"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}
