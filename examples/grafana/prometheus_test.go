package grafana_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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

// rateInterval is $__rate_interval: many scrapes, so that a slow machine does not leave a window with fewer than two.
const rateInterval = "20s"

// patience is for a slow machine that does other things as well.
const patience = 2 * time.Minute

const prometheusConfig = `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: smg, static_configs: [{targets: [%q]}]}]
`

// prometheusBinary is Debian's Prometheus, or that of a release; promtool lies beside it.
func prometheusBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SMG_TEST_PROMETHEUS")
	if path == "" {
		t.Skip("left out: the queries of the dashboard and the alerts in a real Prometheus. Set SMG_TEST_PROMETHEUS to its binary; " +
			"apt-get install prometheus brings /usr/bin/prometheus")
	}
	return path
}

// prometheus is one that runs until the test ends.
type prometheus struct{ url string }

// startPrometheus scrapes a metrics listener twice a second and evaluates the alerts.
func startPrometheus(t *testing.T, scraped string) prometheus {
	t.Helper()
	binary := prometheusBinary(t)
	rules, err := filepath.Abs("alerts.yaml")
	require.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, rules, scraped), 0o600))
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	run(t, exec.Command(binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address, "--log.level", "warn"))
	p := prometheus{"http://" + address}
	require.Eventually(t, func() bool { return status(p.url+"/-/ready") == http.StatusOK }, patience, 50*time.Millisecond)
	return p
}

// run starts a program that ends with the test, and well.
func run(t *testing.T, cmd *exec.Cmd) {
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
			t.Logf("%s says at last: %s", cmd.Path, text[max(0, len(text)-2000):])
		}
		require.NoError(t, err, cmd.Path)
	})
}

// client keeps no connections, so that none of its goroutines outlive a test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// status is 0 while nobody answers.
func status(url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := engine.FreePort()
	require.NoError(t, err)
	return port
}

// api asks the HTTP API and demands that it does not answer with an error.
func (p prometheus) api(t *testing.T, path string, values url.Values, data any) {
	t.Helper()
	resp, err := client.Get(p.url + path + "?" + values.Encode())
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", values, answer.Error)
	require.NoError(t, json.Unmarshal(answer.Data, data))
}

// query tells how many series an expression has now whose value is a number.
func (p prometheus) query(t *testing.T, expr string) (series int) {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.api(t, "/api/v1/query", url.Values{"query": {expr}}, &data)
	for _, r := range data.Result {
		if r.Value[1] != "NaN" { // of a quantile without observations, and of 0/0
			series++
		}
	}
	return series
}

// labelValues is what Grafana asks for label_values(match, label).
func (p prometheus) labelValues(t *testing.T, match, label string) (values []string) {
	t.Helper()
	p.api(t, "/api/v1/label/"+label+"/values", url.Values{"match[]": {match}}, &values)
	return values
}

// telemetry.md, section 9
func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	promtool := filepath.Join(filepath.Dir(prometheusBinary(t)), "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
	}
}
