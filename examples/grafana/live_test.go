package grafana_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// emptyVariables are labels that nobody but Kubernetes gives.
var emptyVariables = []string{"namespace", "pod"}

// provoked are the alerts whose condition the engines of this test bring about. Of the others the signal is there.
var provoked = []string{"SmgWorkerUnhealthy", "SmgBreakerOpen", "SmgHighErrorRatio"}

// Every query of the dashboard is run by a real Prometheus that scrapes a real smg, and has an answer. None is left
// out: what smg counts is there at 0 before it happens, or the traffic of this test makes it happen.
func TestPrometheusAnswersEveryQuery(t *testing.T) {
	prometheusBinary(t)
	g := startGateway(t)
	p := startPrometheus(t, g.metrics)
	g.traffic(t)

	expected := queries(t)
	for deadline := time.Now().Add(patience); len(expected) > 0; <-time.After(time.Second) {
		for title, exprs := range expected {
			expected[title] = slices.DeleteFunc(exprs, func(expr string) bool { return p.query(t, expr) > 0 })
			if len(expected[title]) == 0 {
				delete(expected, title)
			}
		}
		require.False(t, time.Now().After(deadline), "no data for %q", expected)
	}
	requireVariables(t, p)
}

// queries are those of the dashboard by panel, and of the alerts by alert.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, panel := range loadDashboard(t).Panels {
		for _, q := range panel.Targets {
			all[panel.Title] = append(all[panel.Title], filled(t, q.Expr))
		}
	}
	for _, a := range loadAlerts(t) {
		all[a.Alert] = []string{a.signal()}
		if slices.Contains(provoked, a.Alert) {
			all[a.Alert] = []string{a.Expr}
		}
	}
	return all
}

// requireVariables demands that the lists of the dashboard's variables have entries, but for those of Kubernetes.
func requireVariables(t *testing.T, p prometheus) {
	t.Helper()
	form := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range loadDashboard(t).Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := form.FindStringSubmatch(v.Definition)
		require.NotNil(t, parts, v.Definition)
		require.Contains(t, string(v.Query), parts[2], "%s: query and definition differ", v.Name)
		values := p.labelValues(t, filled(t, parts[1]), parts[2])
		if !slices.Contains(emptyVariables, v.Name) {
			require.NotEmpty(t, values, v.Name)
		}
	}
}
