package server

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// families reads a page of metrics.
func families(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err, page)
	return all
}

// values are a family's samples by the engine that they are of.
func values(f *dto.MetricFamily) map[string]float64 {
	found := map[string]float64{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "worker_addr" {
				found[l.GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			}
		}
	}
	return found
}

// http-dataplane.md section 2.2, workers.md section 18
func TestTheMetricsOfAllEnginesAreOnePage(t *testing.T) {
	pages := []string{
		"# HELP sglang:running Requests.\n# TYPE sglang:running gauge\nsglang:running{model=\"m1\"} 1\n# TYPE only_first counter\nonly_first 5\n",
		"# TYPE sglang:running counter\nsglang:running 3\n# TYPE only_second gauge\nonly_second 7\n",
		"# HELP sglang:running Otherwise.\n# TYPE sglang:running gauge\nsglang:running{model=\"m1\"} 2\n",
		"this is no metric\n",
		"", // answers with an error
	}
	var ws []*engine.Running
	for _, page := range pages {
		w := engine.Start(t, engine.Config{})
		w.SetFaults(engine.Fault{Path: "/metrics", Body: engine.Text(page), Headers: engine.Headers{"Content-Type: text/plain"}})
		if page == "" {
			w.SetFaults(engine.Fault{Path: "/metrics", Status: 500})
		}
		ws = append(ws, w)
	}
	g := start(t, nil)
	for _, w := range ws { // one by one: the first that has a family decides what it is
		g.becomes(t, g.add(t, `{"url":"`+w.URL+`"}`), "ready")
	}
	got := g.get(t, "/engine_metrics")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.Header.Get("Content-Type"), "text/plain")
	all := families(t, got.Body)
	require.Len(t, all, 3)
	require.Equal(t, map[string]float64{ws[0].URL: 1, ws[2].URL: 2}, values(all["sglang:running"]), "one of another type is left out")
	require.Equal(t, "Requests.", all["sglang:running"].GetHelp())
	require.Equal(t, map[string]float64{ws[0].URL: 5}, values(all["only_first"]))
	require.Equal(t, map[string]float64{ws[1].URL: 7}, values(all["only_second"]))
	require.Equal(t, 1, strings.Count(got.Body, "# TYPE sglang:running"))
}

// http-dataplane.md section 2.2: an engine that is not ready may be the one that an operator asks about.
func TestEveryEngineIsAskedForItsMetricsOnce(t *testing.T) {
	w1, w2 := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{Engine: engine.VLLM})
	g := start(t, func(c *Config) { c.Policy, c.DisableLoadMonitoring = "random", true }, w1, w2) // polls ask for metrics too
	g.serving(t, 2)
	for _, rank := range []string{"0", "1"} {
		g.becomes(t, g.add(t, `{"url":"`+w2.URL+`@`+rank+`"}`), "ready")
	}
	w1.SetFaults(engine.Fault{Path: "/metrics", Status: 503})
	got := g.get(t, "/engine_metrics")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.NotContains(t, got.Body, w1.URL, "one that fails is left out")
	require.Contains(t, got.Body, `worker_addr="`+w2.URL+`"`)
	for _, w := range []*engine.Running{w1, w2} {
		require.EqualValues(t, 1, w.State().Paths["/metrics"])
	}
}

// http-dataplane.md section 2.2, DECISIONS.md row 25
func TestWithoutAPageOfMetricsItIsAnError(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil)
	got := g.get(t, "/engine_metrics")
	require.Equal(t, http.StatusInternalServerError, got.StatusCode)
	require.Equal(t, openAIError("No available workers", "server_error", "null", "no_workers", ""), got.Body)

	g.becomes(t, g.add(t, `{"url":"`+w.URL+`"}`), "ready")
	w.SetFaults(engine.Fault{Path: "/metrics", Close: true})
	got = g.get(t, "/engine_metrics")
	require.Equal(t, http.StatusInternalServerError, got.StatusCode)
	require.Equal(t, openAIError("All backend requests failed", "server_error", "null", "no_worker_response", ""), got.Body)
}
