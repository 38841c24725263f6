package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md section 2.2, workers.md section 18
func TestAQuestionGoesToTheFirstWorkerThatIsReady(t *testing.T) {
	w1, w2 := engine.Start(t, engine.Config{Models: []string{"first"}}), engine.Start(t, engine.Config{Models: []string{"second"}})
	g := start(t, nil, w1, w2)
	g.serving(t, 2)
	all := g.gateway.registry.All()
	names := map[string]string{w1.URL: "first", w2.URL: "second"}
	ask := func() string {
		got := g.do(t, http.MethodGet, "/get_model_info?x=1", "", "X-Request-Id", "one", "X-Other", "2")
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Equal(t, "one", got.Header.Get("X-Request-Id"))
		require.Contains(t, got.Body, `"model_path":"`+names[got.Header.Get("X-Smg-Routed-Worker-Id")]+`"`)
		return got.Header.Get("X-Smg-Routed-Worker-Id")
	}
	first := ask()
	require.Equal(t, first, ask(), "always the same")

	for _, w := range all {
		if w.URL() == first {
			w.SetStatus(workers.NotReady)
		}
	}
	other := ask()
	require.NotEqual(t, first, other, "one that is not ready is not asked")
	for _, e := range []*engine.Running{w1, w2} {
		for _, r := range asked(e) {
			require.Empty(t, r.Values("X-Other"))
			require.NotContains(t, r.Head[0], "x=1")
		}
	}

	all[0].SetStatus(workers.NotReady)
	all[1].SetStatus(workers.NotReady)
	for _, path := range []string{"/get_model_info", "/get_server_info", "/health_generate"} {
		got := g.get(t, path)
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
		require.Equal(t, openAIError("No workers are available", "server_error", "null", "no_workers", ""), got.Body)
		require.Equal(t, "no_workers", got.Header.Get("X-Smg-Error-Code"))
	}
}

// workers.md section 18: engines have renamed these; who asks need not know.
func TestAQuestionIsAskedByItsOtherNameIfTheWorkerDoesNotKnowTheFirst(t *testing.T) {
	tests := []struct {
		name, path string
		fault      []engine.Fault // of the worker
		status     int
		body       string
		asked      []string
	}{
		{"the name is known", "/get_server_info", nil, 200, "served_model_name", []string{"/get_server_info"}},
		{"the old name of the settings", "/get_server_info", gone("/get_server_info"), 200, "served_model_name", []string{"/get_server_info", "/server_info"}},
		{"the old name of the model", "/get_model_info", gone("/get_model_info"), 200, "is_generation", []string{"/get_model_info", "/model_info"}},
		{"neither name", "/get_model_info", gone("/get_model_info", "/model_info"), 404, "gone /model_info", []string{"/get_model_info", "/model_info"}},
		{"only one name", "/health_generate", gone("/health_generate"), 404, "gone /health_generate", []string{"/health_generate"}},
		{
			"an error is no reason to ask again", "/get_model_info",
			[]engine.Fault{{Path: "/get_model_info", Status: 500, Body: "sorry"}},
			500, "sorry",
			[]string{"/get_model_info"},
		},
	}
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.SetFaults(tt.fault...)
			w.ClearRequests()
			got := g.get(t, tt.path)
			require.Equal(t, tt.status, got.StatusCode)
			require.Contains(t, got.Body, tt.body)
			require.Equal(t, w.URL, got.Header.Get("X-Smg-Routed-Worker-Id"))
			var paths []string
			for _, r := range asked(w) {
				require.Equal(t, http.MethodGet, r.Method)
				paths = append(paths, r.Path)
			}
			require.Equal(t, tt.asked, paths)
			g.quiet(t)
		})
	}
}

func gone(paths ...string) (faults []engine.Fault) {
	for _, p := range paths {
		faults = append(faults, engine.Fault{Path: p, Status: http.StatusNotFound, Body: engine.Text("gone " + p)})
	}
	return faults
}

// http-dataplane.md sections 2.2 and 15
func TestAQuestionThatIsNotAnswered(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil, w)
	for _, tt := range []struct {
		name  string
		fault engine.Fault
		code  string
	}{
		{"the worker hangs up", engine.Fault{Path: "/get_*", Close: true}, "call_upstream_request_error"},
		{"the answer breaks off", engine.Fault{Path: "/get_*", CutAfterBytes: new(int)}, "read_response_body_failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.SetFaults(tt.fault)
			got := g.get(t, "/get_model_info")
			require.Equal(t, http.StatusBadGateway, got.StatusCode)
			require.Equal(t, tt.code, got.Header.Get("X-Smg-Error-Code"))
			require.NotContains(t, got.Body, w.URL)
		})
	}
}
