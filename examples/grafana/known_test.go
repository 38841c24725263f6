package grafana_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// targetLabels are those that Prometheus adds when it scrapes.
var targetLabels = []string{"namespace", "pod", "instance", "job"}

// emitted are the names of all series that smg writes, with their labels.
func emitted(t *testing.T) map[string][]string {
	t.Helper()
	metrics := telemetry.NewMetrics(telemetry.Options{})
	known := map[string][]string{}
	for _, f := range metrics.Families() {
		addSeries(known, f.Name, f.Type, f.Labels)
	}
	gathered, err := metrics.Registry().Gather() // those of the Go runtime and the process, which are no families of smg
	require.NoError(t, err)
	for _, f := range gathered {
		if _, listed := known[f.GetName()]; listed || strings.HasPrefix(f.GetName(), "smg_") {
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		addSeries(known, f.GetName(), strings.ToLower(f.GetType().String()), labels)
	}
	return known
}

func addSeries(known map[string][]string, name, kind string, labels []string) {
	switch kind {
	case "histogram":
		known[name+"_bucket"] = append(slices.Clone(labels), "le")
	case "summary":
		known[name] = append(slices.Clone(labels), "quantile")
	default:
		known[name] = labels
		return
	}
	known[name+"_sum"], known[name+"_count"] = labels, labels
}

// unknown are sentences about what an expression reads and smg does not write. legend is how its result is named, "" for not at all.
func unknown(known map[string][]string, expr, legend string) (wrong []string) {
	r, err := read(expr)
	if err != nil {
		return []string{err.Error()}
	}
	if len(r.metrics) == 0 {
		wrong = append(wrong, fmt.Sprintf("%s reads no metric", expr))
	}
	all := slices.Clone(targetLabels)
	for _, m := range r.metrics {
		labels, ok := known[m.name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("smg emits no %s", m.name))
		}
		all = append(all, labels...)
		for _, l := range m.labels {
			if ok && !slices.Contains(labels, l) && !slices.Contains(targetLabels, l) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", m.name, l))
			}
		}
	}
	for _, l := range r.groups {
		if !slices.Contains(all, l) {
			wrong = append(wrong, fmt.Sprintf("nothing in %s has the label %s that it groups by", expr, l))
		}
	}
	for _, l := range placeholders(legend) {
		if !slices.Contains(r.groups, l) {
			wrong = append(wrong, fmt.Sprintf("the legend names %s, which the result of %s does not have", l, expr))
		}
	}
	return wrong
}

// placeholders are the labels that a legend such as "{{path}} p99" names.
func placeholders(legend string) (labels []string) {
	for _, part := range strings.Split(legend, "{{")[1:] {
		label, _, _ := strings.Cut(part, "}}")
		labels = append(labels, strings.TrimSpace(label))
	}
	return labels
}

// telemetry.md, section 9: "a test that every name used is emitted". This is the test of that test.
func TestWhatIsNotEmittedIsNamed(t *testing.T) {
	tests := []struct {
		name, expr, legend string
		want               []string
	}{
		{"a counter and its labels", `sum by (path) (rate(smg_http_requests_total{method="GET",pod="x"}[1m]))`, "{{path}}", nil},
		{"a histogram's buckets", `sum by (le) (smg_router_ttft_seconds_bucket)`, "", nil},
		{"the process and the runtime", `process_cpu_seconds_total + go_goroutines + go_gc_duration_seconds{quantile="1"}`, "", nil},
		{"a name that nobody emits", `smg_requests_total`, "", []string{"smg emits no smg_requests_total"}},
		{"a histogram has no series of its own name", `smg_router_ttft_seconds`, "", []string{"smg emits no smg_router_ttft_seconds"}},
		{"a label of another metric", `smg_worker_health{model="x"}`, "", []string{"smg_worker_health has no label model"}},
		{"a group by a label that is not there", `sum by (model) (smg_worker_health)`, "", []string{"nothing in sum by (model) (smg_worker_health) has the label model that it groups by"}},
		{"a legend of a label that is summed away", `sum(smg_worker_health)`, "{{worker}}", []string{"the legend names worker, which the result of sum(smg_worker_health) does not have"}},
		{"no metric", `vector(1)`, "", []string{"vector(1) reads no metric"}},
	}
	known := emitted(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, unknown(known, tt.expr, tt.legend)) })
	}
}
