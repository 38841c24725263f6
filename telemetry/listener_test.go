package telemetry

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, m *Metrics) (url string, out *output) {
	t.Helper()
	l, out := logTo(t, LogOptions{})
	ln, err := ListenMetrics("127.0.0.1", 0)
	require.NoError(t, err)
	s := ServeMetrics(ln, m, l.Target("smg::telemetry"))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return "http://" + s.Addr().String(), out
}

func ask(t *testing.T, method, url, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// telemetry.md, section 1; capture.md, section 4.1
func TestMetricsListenerServesMetricsAndNothingElse(t *testing.T) {
	url, out := serve(t, newTestMetrics())
	tests := []struct {
		name, method, path string
		status             int
		allow, contentType string
		body               bool
	}{
		{"a scrape gets the text format", "GET", "/metrics", 200, "", "text/plain; version=0.0.4; charset=utf-8", true},
		{"a query changes nothing", "GET", "/metrics?x=1", 200, "", "text/plain; version=0.0.4; charset=utf-8", true},
		{"HEAD is allowed", "HEAD", "/metrics", 200, "", "text/plain; version=0.0.4; charset=utf-8", false},
		{"POST is not", "POST", "/metrics", 405, "GET, HEAD", "", false},
		{"probes are on another port", "GET", "/health", 404, "", "", false},
		{"the root is empty", "GET", "/", 404, "", "", false},
		{"a path below is another path", "GET", "/metrics/", 404, "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := ask(t, tt.method, url+tt.path, "")
			require.Equal(t, tt.status, resp.StatusCode)
			require.Equal(t, tt.allow, resp.Header.Get("Allow"))
			require.Equal(t, tt.contentType, resp.Header.Get("Content-Type"))
			require.Equal(t, tt.body, strings.Contains(body, "\nsmg_build_info{"), body)
		})
	}
	require.Contains(t, out.String(), "INFO smg::telemetry: Metrics server listening on "+strings.TrimPrefix(url, "http://")+" (/metrics)")
}

// telemetry.md, section 1
func TestScrapersChooseTheFormat(t *testing.T) {
	m := newTestMetrics()
	exercise(m)
	url, _ := serve(t, m)

	resp, body := ask(t, "GET", url+"/metrics", "application/openmetrics-text; version=1.0.0")
	require.Equal(t, "application/openmetrics-text; version=1.0.0; charset=utf-8", resp.Header.Get("Content-Type"))
	require.True(t, strings.HasSuffix(body, "# EOF\n"))

	resp, _ = ask(t, "GET", url+"/metrics", "text/plain; version=1.0.0; escaping=allow-utf-8")
	require.Contains(t, resp.Header.Get("Content-Type"), "escaping=allow-utf-8", "who asks for an escaping is told which it got")

	_, body = ask(t, "GET", url+"/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	for _, f := range m.Families() {
		require.Contains(t, families, f.Name)
	}
}

// A worker that spoils its samples must not cost the operator all others.
func TestScrapeSurvivesABadSource(t *testing.T) {
	m := newTestMetrics()
	twice := []WorkerSample{{URL: "http://a:1", Type: "x\xff", Model: "\xff"}, {URL: "http://a:1"}, {}}
	m.Workers.SetSource(slices.Values(twice))
	url, _ := serve(t, m)
	resp, body := ask(t, "GET", url+"/metrics", "")
	require.Equal(t, 200, resp.StatusCode)
	require.Contains(t, body, `smg_worker_health{worker="http://a:1"} 0`)
	require.Contains(t, body, "smg_build_info")
}

// telemetry.md, section 1
func TestMetricsListenerThatCannotBindSaysSo(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	_, err = ListenMetrics("127.0.0.1", port)
	require.ErrorContains(t, err, "failed to bind metrics server on "+busy.Addr().String()+": ")
	require.ErrorContains(t, err, "address already in use")

	for _, host := range []string{"garbage", "", "127.0.0.1.5", "localhost"} {
		_, err = ListenMetrics(host, 0)
		require.ErrorContains(t, err, "failed to bind metrics server on "+host+":0: ")
		require.ErrorContains(t, err, "is not an IP address")
	}
	_, err = ListenMetrics("127.0.0.1", 70000)
	require.ErrorContains(t, err, "failed to bind metrics server on 127.0.0.1:70000: ")
}

func TestMetricsListenerClosesOnce(t *testing.T) {
	l, _ := logTo(t, LogOptions{Level: slog.LevelError})
	ln, err := ListenMetrics("127.0.0.1", 0)
	require.NoError(t, err)
	s := ServeMetrics(ln, newTestMetrics(), l.Target("smg"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	again, err := net.Listen("tcp", s.Addr().String())
	require.NoError(t, err, "the port is free again")
	require.NoError(t, again.Close())
}

func TestMetricsServerThatLosesItsListenerTells(t *testing.T) {
	l, out := logTo(t, LogOptions{})
	ln, err := ListenMetrics("127.0.0.1", 0)
	require.NoError(t, err)
	s := ServeMetrics(ln, newTestMetrics(), l.Target("smg"))
	require.NoError(t, ln.Close())
	<-s.done
	require.ErrorIs(t, s.Close(), net.ErrClosed)
	require.Contains(t, out.String(), "metrics server ended")
}
