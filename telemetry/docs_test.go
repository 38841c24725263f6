package telemetry

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md; read what has changed")

// area is a part of the page: the families whose names begin with one of the prefixes.
type area struct {
	title, intro string
	prefixes     []string
}

var areas = []area{
	{
		"Process", "The program itself. The usual `go_*` and `process_*` families of the Prometheus client are served beside these.",
		[]string{"smg_build_", "smg_runtime_", "smg_log_", "smg_ready", "smg_draining", "smg_job_", "smg_jobs_"},
	},
	{
		"HTTP", "Requests and connections on the main listener, whatever their route. Those of the probe listener (`--health-check-port`) are not counted.",
		[]string{"smg_http_", "smg_client_", "smg_gateway_", "smg_stream_"},
	},
	{"Admission", "The limiter in front of the routes.", []string{"smg_admission_"}},
	{"Tracing", "What became of spans. Tracing is off unless it is turned on.", []string{"smg_trace_"}},
	{"Recording", "What became of the lines of `--record`.", []string{"smg_record_"}},
	{
		"Routing", "Requests that are routed to a worker: each is counted once, however many attempts it takes; `smg_router_upstream_*` count attempts.",
		[]string{"smg_router_", "smg_upstream_"},
	},
	{
		"Workers", "Attempts, and the state of workers. Series with the label `worker` are deleted when the worker leaves the registry, " +
			"and what ends later does not bring them back.",
		[]string{"smg_worker_", "smg_workers_"},
	},
	{
		"Discovery", "Workers that come and go by themselves. What is submitted is counted, not how it ends; a source that is not used has no series.",
		[]string{"smg_discovery_"},
	},
	{
		"Policies", "How policies decide, and what they keep.",
		[]string{"smg_cache_", "smg_consistent_hashing_", "smg_manual_", "smg_policy_", "smg_prefix_hash_", "smg_routing_key_"},
	},
	{
		"Engines", "What the engines report of their load. A worker without a report has none of the series with the label `worker`, and what an engine does not " +
			"tell has none either.",
		[]string{"smg_engine_", "smg_load_"},
	},
}

func areaOf(family string) (title string, known bool) {
	for _, a := range areas {
		for _, prefix := range a.prefixes {
			if strings.HasPrefix(family, prefix) {
				return a.title, true
			}
		}
	}
	return "", false
}

// label is what the page says of a label: its meaning, and its values if not all of them have a series from the start.
type label struct{ meaning, values string }

var labels = map[string]label{
	"action":          {"What was to be done.", ""},
	"attempt":         {"Number of the retry that was waited for.", "`1` (the second attempt) to `9`, `10+`"},
	"backend_type":    {"How workers share the work of a request.", "`regular`, `pd`, `external`"},
	"branch":          {"The branch that the decision took.", ""},
	"commit":          {"Revision that the program was built from.", "any"},
	"connection_mode": {"The protocol that workers are spoken to in.", "`http`, `grpc`, `zmq`"},
	"dp_rank":         {"Data-parallel rank of the engine, as it reports.", "numbers from `0`"},
	"endpoint":        {"The inference route, in short.", ""},
	"error_code":      {"A code of [errors.md](errors.md), made by the gateway; empty if a worker answered, and never what a worker's header says.", "codes, empty"},
	"error_type":      {"Class of the failure.", "`no_workers`, `timeout`, `backend_error`, `validation_error`, `internal_error`"},
	"field":           {"The number, as `/v1/loads` calls it.", "`num_running_reqs`, `num_waiting_reqs`, `num_total_reqs`, `num_waiting_uncached_tokens`, `num_used_tokens`, `max_total_num_tokens`, `token_usage`, `gen_throughput`, `cache_hit_rate`, `utilization`, `max_running_requests`"},
	"from":            {"State of the breaker before the change.", "`closed`, `open`, `half_open`"},
	"go_version":      {"Go version that the program was built with.", "any"},
	"gt":              {"Age in seconds above which requests are counted in the series.", ""},
	"le":              {"Age in seconds up to which requests are counted in the series; in a histogram, the upper bound of the bucket.", ""},
	"method":          {"Method of the request.", "`GET`, `POST`, `PUT`, `DELETE`, `PATCH`, `HEAD`, `OPTIONS`, `OTHER`"},
	"model":           {"Canonical id of the model, aliases resolved.", "the first 1024 ids; `other` for later ones and for models that nobody serves, `unknown` if none is named"},
	"outcome":         {"How it ended: the breaker's judgement of an attempt (`success`, `failure`), a wait for admission, or a request (`ok`, `failed`).", "`success`, `failure`, `admitted`, `timeout`, `cancelled`, `ok`, `failed`"},
	"path":            {"Path template of the route, never the path of a request. Of `smg_router_request_body_path_total`: whether the body was read before a worker was chosen.", "templates such as `/v1/models/{model}`, `other` without a route; `buffered`, `streamed`"},
	"phase":           {"How far a request had come when its client left.", ""},
	"policy":          {"The policy that selected.", "names of `--policy`"},
	"reason":          {"Why.", ""},
	"result":          {"How it ended.", ""},
	"reused":          {"Whether the connection was there already.", ""},
	"role":            {"Part of prefill and decode that the engine plays, as it reports.", "`prefill`, `decode`, `null`"},
	"router_type":     {"Family of workers that the request was routed to.", "`http`, `grpc`, `openai`"},
	"sink":            {"Output of the log that lost lines.", ""},
	"source":          {"Where the routing key, or the worker, came from.", ""},
	"stage":           {"Stage of the pipeline, by its name in [stages.md](stages.md). Of sheds and fallbacks: where they were decided.", "names of stages; `selection`, `dispatch`, `pd_admission`"},
	"status_code":     {"HTTP status; 499 is a client that left.", "numbers"},
	"streaming":       {"Whether the answer was asked for as a stream.", "`true`, `false`"},
	"timeout":         {"Which limit ended the connection.", ""},
	"to":              {"State of the breaker after the change.", "`closed`, `open`, `half_open`"},
	"tree":            {"The tree of a model.", "`string`, `token`"},
	"token_type":      {"Tokens of the prompt, or of the answer.", "`input`, `output`"},
	"type":            {"Kind of the change.", ""},
	"version":         {"Version of smg.", "any"},
	"worker":          {"URL of the worker as it is registered, with `@rank` if it has one.", "registered workers; not capped"},
	"runtime":         {"The engine that the worker runs.", "`unspecified`, `sglang`, `vllm`, `trtllm`, `mlx`, `tokenspeed`, `generic`, `external`"},
	"status":          {"The state of the worker.", "`pending`, `ready`, `not_ready`, `failed`, `draining`"},
	"worker_type":     {"What the worker does.", ""},
}

const metricsIntro = `# Metrics

Every metric of smg's own, for whoever writes a dashboard or an alert. This page is rendered from the code: change it there, then
run ` + "`go test ./telemetry -run Page -update`" + `.

## Where they are

` + "`GET /metrics`" + ` on a listener of its own (` + "`--prometheus-host`, `--prometheus-port`" + `; 0.0.0.0:29000 by default): text format, or OpenMetrics
for scrapers that ask for it; there, the histograms of how long requests take name traces ([tracing.md](tracing.md#from-a-histogram-to-a-trace)). It has no authentication, is neither counted nor logged, and answers until the very end of a
shutdown, so that the last scrape sees the drain. If the port is taken, smg does not start. What the engines say of themselves is at
` + "`GET /engine_metrics`" + ` on the main port.

## What labels may cost

Nothing that a client sends becomes a label by itself. Paths are templates of routes, methods a fixed list, error codes those that the
gateway makes, models the ones that workers serve. Of models, and of codes, a limited number gets series of its own; the rest share
the value ` + "`other`" + `. Only workers are not limited: who registers them decides how many there are.

Series whose labels form a fixed set exist at 0 from the start, so that ` + "`rate()`" + ` and alerts on absence work. The others
appear when they are first counted.

Durations are in seconds. ` + "`--prometheus-duration-buckets`" + ` replaces the bounds of the histograms whose names end in ` + "`duration_seconds`,\n`ttft_seconds` or `tpot_seconds`" + `; that of stages keeps its own.
`

// telemetry.md, sections 1 to 4; STYLE.md, section i
func TestPageOfMetrics(t *testing.T) {
	const page = "../docs/metrics.md"
	m := newTestMetrics()
	got := metricsPage(t, m)
	if *update {
		require.NoError(t, os.WriteFile(page, got, 0o644))
	}
	want, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the page and the code differ; run: go test ./telemetry -run Page -update")
}

// A family in no area, and a label without a meaning, would be missing from the page.
func TestPageOfMetricsHasEveryFamilyAndEveryLabel(t *testing.T) {
	used := map[string]bool{}
	for _, f := range newTestMetrics().Families() {
		_, known := areaOf(f.Name)
		require.True(t, known, "%s belongs to no area of the page; give areas its prefix", f.Name)
		require.Equal(t, f.Type == "histogram", len(f.Buckets) > 0, f.Name)
		for _, l := range f.Labels {
			used[l] = true
			require.NotEmpty(t, labels[l].meaning, "%s has the label %q, which labels does not explain", f.Name, l)
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(labels)), "a label that no family has any more")
}

// The bounds that the page lists are those that are served.
func TestBucketsOfFamiliesAreTheServedOnes(t *testing.T) {
	m := newTestMetrics()
	exercise(m)
	served := scrape(t, m)
	for _, f := range m.Families() {
		if f.Type != "histogram" {
			continue
		}
		var bounds []float64
		for _, b := range served[f.Name].GetMetric()[0].GetHistogram().GetBucket() {
			bounds = append(bounds, b.GetUpperBound())
		}
		require.Equal(t, f.Buckets, bounds[:len(bounds)-1], "%s: all but +Inf", f.Name)
	}
}

func metricsPage(t *testing.T, m *Metrics) []byte {
	var b bytes.Buffer
	b.WriteString(metricsIntro)
	for _, a := range areas {
		a.write(&b, m.Families())
	}
	b.WriteString("\n## Labels\n\n| Label | What it says | Values |\n|---|---|---|\n")
	fixed := fixedValues(t, m)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		values := cmp.Or(labels[name].values, fixed[name].String())
		require.NotEmpty(t, values, "no series has the label %q from the start; give its values to labels", name)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, labels[name].meaning, values)
	}
	b.WriteString("\n## Buckets\n\nUpper bounds of the histograms, in seconds, by the bounds that they share; all end with `+Inf`.\n\n" +
		"| Histograms | Bounds |\n|---|---|\n")
	for _, row := range bucketRows(m.Families()) {
		fmt.Fprintf(&b, "| %s | %s |\n", codes(row.families), row.bounds)
	}
	return b.Bytes()
}

func (a area) write(b *bytes.Buffer, all []Family) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| Metric | Type | Labels | What it is |\n|---|---|---|---|\n", a.title, a.intro)
	for _, f := range all {
		if title, _ := areaOf(f.Name); title == a.title {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, codes(f.Labels), f.Help)
		}
	}
}

// codes are names as a cell of a table shows them.
func codes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// valuesByFamily are the values of a label in the families that have series, the families in the order of their names.
type valuesByFamily struct {
	families []string
	values   map[string][]string
}

// String is the values once if all families have the same, else with the family's name.
func (v *valuesByFamily) String() string {
	if v == nil {
		return ""
	}
	var texts, named []string
	for _, f := range v.families {
		text := codes(v.values[f])
		texts = append(texts, text)
		named = append(named, "of `"+f+"`: "+text)
	}
	if slices.Sort(texts); len(slices.Compact(texts)) == 1 {
		return texts[0]
	}
	return strings.Join(named, "; ")
}

// fixedValues are the values that labels have before anything was counted. A label whose values are a fixed set has all of them.
func fixedValues(t *testing.T, m *Metrics) map[string]*valuesByFamily {
	found := map[string]*valuesByFamily{}
	served := scrape(t, m)
	for _, f := range m.Families() {
		values := map[string]map[string]bool{}
		for _, s := range served[f.Name].GetMetric() {
			for _, l := range s.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
			}
		}
		for name, set := range values {
			if found[name] == nil {
				found[name] = &valuesByFamily{values: map[string][]string{}}
			}
			found[name].families = append(found[name].families, f.Name)
			found[name].values[f.Name] = slices.SortedFunc(maps.Keys(set), naturally)
		}
	}
	return found
}

// naturally orders numbers by size and before words.
func naturally(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

type bucketRow struct {
	families []string
	bounds   string
}

func bucketRows(families []Family) (rows []bucketRow) {
	for _, f := range families {
		if f.Type != "histogram" {
			continue
		}
		var bounds []string
		for _, bound := range f.Buckets {
			bounds = append(bounds, strconv.FormatFloat(bound, 'f', -1, 64))
		}
		text := strings.Join(bounds, " ")
		i := slices.IndexFunc(rows, func(r bucketRow) bool { return r.bounds == text })
		if i < 0 {
			i = len(rows)
			rows = append(rows, bucketRow{bounds: text})
		}
		rows[i].families = append(rows[i].families, f.Name)
	}
	return rows
}
