package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allRoutes are the routes of http-dataplane.md section 2 that exist.
var allRoutes = []string{
	"POST /v1/chat/completions", "POST /v1/completions", "POST /generate", "POST /v1/embeddings", "POST /v1/classify", "POST /v1/messages",
	"POST /v1/messages/count_tokens", "POST /v1/responses", "POST /rerank", "POST /v1/rerank", "POST /v1/audio/transcriptions",
	"GET /health", "GET /liveness", "GET /readiness", "GET /v1/models", "GET /v1/models/{model}", "GET /engine_metrics", "GET /loads", "GET /get_loads",
	"GET /health_generate", "GET /get_model_info", "GET /get_server_info",
	"POST /explain", "POST /flush_cache", "POST /start_profile", "POST /stop_profile", "GET /workers", "POST /workers", "GET /workers/{worker_id}",
	"PATCH /workers/{worker_id}", "PUT /workers/{worker_id}", "DELETE /workers/{worker_id}", "POST /workers/{worker_id}/breaker/reset",
	"other",
}

func printed(t *testing.T, format string) string { return printedRoute(t, "", format) }

func printedRoute(t *testing.T, route, format string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Pipelines(Default(), route, format, &b))
	return b.String()
}

func printedRoutes(t *testing.T) (views []routeView) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(printed(t, "json")), &views))
	return views
}

// DESIGN.md section 3, "Seeing"
func TestPipelinesAsJSONHaveEveryRoute(t *testing.T) {
	var routes []string
	for _, v := range printedRoutes(t) {
		routes = append(routes, v.Route)
		var given []string
		for _, s := range v.Stages {
			require.NotEmpty(t, s.Name)
			require.NotNil(t, s.Needs)
			require.NotNil(t, s.Gives)
			require.NotNil(t, s.Uses)
			for _, need := range s.Needs {
				require.Contains(t, given, need, "%s: stage %s", v.Route, s.Name)
			}
			given = append(given, s.Gives...)
		}
	}
	require.Equal(t, allRoutes, routes)
}

// http-dataplane.md section 1: the order of the stages.
func TestPipelinesShowTheWayOfARequest(t *testing.T) {
	want := map[string]string{
		"POST /v1/chat/completions": "request_id http_metrics access_log payload_limit admission buffer body model prompt routing_key account retry " +
			"candidates available breaker overload untried policy dispatch rank in_flight forward",
		"POST /v1/audio/transcriptions": "request_id http_metrics access_log payload_limit admission form model prompt routing_key account retry " +
			"candidates whole_engines available breaker overload untried policy dispatch rank in_flight forward",
		"GET /get_model_info": "request_id http_metrics access_log payload_limit first_ready either_name forward",
		"GET /health":         "request_id http_metrics access_log payload_limit alive",
		"other":               "request_id http_metrics access_log payload_limit unknown_url",
	}
	for _, v := range printedRoutes(t) {
		var names []string
		for _, s := range v.Stages {
			names = append(names, s.Name)
		}
		if way, there := want[v.Route]; there {
			require.Equal(t, way, strings.Join(names, " "), v.Route)
		}
		if strings.HasPrefix(v.Route, "POST /v1/") && want[v.Route] == "" || v.Route == "POST /generate" || v.Route == "POST /rerank" {
			require.Equal(t, want["POST /v1/chat/completions"], strings.Join(names, " "), v.Route)
		}
	}
}

// The text says what the JSON says, for people.
func TestPipelinesAsText(t *testing.T) {
	blocks := strings.Split(strings.TrimSuffix(printed(t, "text"), "\n"), "\n\n")
	views := printedRoutes(t)
	require.Len(t, blocks, len(views))
	for i, v := range views {
		rows := strings.Split(blocks[i], "\n")
		require.Equal(t, v.Route, rows[0])
		require.Len(t, rows, len(v.Stages)+1)
		for j, s := range v.Stages {
			row := rows[j+1]
			require.Equal(t, s.Name, strings.Fields(row)[0])
			require.Equal(t, strings.TrimRight(row, " ;"), row, "nothing loose at the end")
			for verb, names := range map[string][]string{"needs ": s.Needs, "gives ": s.Gives, "uses ": s.Uses} {
				require.Equal(t, len(names) > 0, strings.Contains(row, verb), row)
				require.Contains(t, row, strings.Join(names, ", "))
			}
		}
	}
}

// Routes with the same way share a part of the graph, so that it fits a page.
func TestPipelinesAsAGraph(t *testing.T) {
	graph := printed(t, "mermaid")
	require.True(t, strings.HasPrefix(graph, "flowchart LR\n"))
	for _, route := range allRoutes {
		require.Equal(t, 1, count(graph, `"`+route+`"`)+count(graph, `"`+route+`<br/>`)+count(graph, `<br/>`+route+`<br/>`)+count(graph, `<br/>`+route+`"`), route)
	}
	parts := count(graph, "  subgraph ")
	require.Equal(t, parts, count(graph, "\n  end\n"))
	require.Less(t, parts, len(allRoutes))

	nodes := 0
	ways := map[string]bool{}
	for _, v := range printedRoutes(t) {
		js, err := json.Marshal(v.Stages)
		require.NoError(t, err)
		if !ways[string(js)] {
			nodes += len(v.Stages)
		}
		ways[string(js)] = true
	}
	require.Len(t, ways, parts, "one part for each way")
	require.Equal(t, nodes-parts, count(graph, " --> "), "each stage but the first follows another")
}

func count(text, what string) int { return strings.Count(text, what) }

// One route is all routes without the others, and a graph of rows that fit a page.
func TestPipelinesOfOneRoute(t *testing.T) {
	for _, v := range printedRoutes(t) {
		var only []routeView
		require.NoError(t, json.Unmarshal([]byte(printedRoute(t, v.Route, "json")), &only))
		require.Equal(t, []routeView{v}, only)
		require.Contains(t, printed(t, "text"), printedRoute(t, v.Route, "text"))

		graph := printedRoute(t, v.Route, "mermaid")
		require.True(t, strings.HasPrefix(graph, "flowchart TB\n"))
		rows := count(graph, "  subgraph ")
		require.Equal(t, rows, count(graph, "\n  end\n"))
		require.Equal(t, len(v.Stages), count(graph, "[\"")-rows, "each stage once")
		require.Equal(t, len(v.Stages)-rows, count(graph, " --> s"), "the stages of a row follow each other")
		require.Equal(t, rows-1, count(graph, " --> row"), "and so do the rows")
	}
	require.ErrorContains(t, Pipelines(Default(), "GET /nowhere", "text", &bytes.Buffer{}), `no route "GET /nowhere"; the routes are POST /v1/chat/completions, `)
}

// The picture tells what is done again when an attempt fails.
func TestAWayIsBrokenBehindTheRetryStageAndWhereItIsLong(t *testing.T) {
	way := func(names string) (views []stageView) {
		for _, name := range strings.Fields(names) {
			views = append(views, stageView{Name: name})
		}
		return views
	}
	tests := []struct{ name, way, want string }{
		{"a short way is a row", "a b c", "each request: a b c"},
		{"a long way is rows of about the same length", "a b c d e f g", "each request: a b c d; and then: e f g"},
		{"as many as fit", "a b c d e f", "each request: a b c d e f"},
		{"attempts begin on a row of their own", "a retry b c", "each request: a retry; each attempt: b c"},
		{"both may be long", "a b c d e f retry g h i j k l m", "each request: a b c d; and then: e f retry; each attempt: g h i j; and then: k l m"},
		{"a way that ends with retry", "a retry", "each request: a retry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range rowsOf(way(tt.way)) {
				names := r.title + ":"
				for _, s := range r.stages {
					names += " " + s.Name
				}
				got = append(got, names)
			}
			require.Equal(t, tt.want, strings.Join(got, "; "))
		})
	}
}

// A configuration changes what is assembled; showing it starts nothing.
func TestPipelinesAreThoseOfTheConfiguration(t *testing.T) {
	for _, policy := range []string{"random", "round_robin"} {
		cfg := Default()
		cfg.Policy, cfg.WorkerURLs = policy, []string{"http://127.0.0.1:1"}
		var b bytes.Buffer
		require.NoError(t, Pipelines(cfg, "", "json", &b))
		var views []routeView
		require.NoError(t, json.Unmarshal(b.Bytes(), &views))
		require.True(t, slices.ContainsFunc(views[0].Stages, func(s stageView) bool { return s.Name == "policy" }))
	}
	cfg := Default()
	cfg.Policy = "nope"
	require.ErrorContains(t, Pipelines(cfg, "", "text", &bytes.Buffer{}), "nope")
}
