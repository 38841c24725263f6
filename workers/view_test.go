package workers

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shown(t *testing.T, v View) string {
	t.Helper()
	js, err := json.Marshal(v)
	require.NoError(t, err)
	return string(js)
}

// workers.md section 18, capture.md section 3
func TestViewOfAWorker(t *testing.T) {
	s, err := ParseSpec([]byte(`{"url":"http://10.0.0.5:8000/","runtime_type":"sglang","labels":{"tp_size":"1","served_model_name":"m","max_model_len":"32768"},
		"api_key":"hidden","overload":{"token_usage":0.9},"health":{"timeout_secs":2},"http_pool":{"timeout_secs":5},"resilience":{"cb_failure_threshold":2}}`))
	require.NoError(t, err)
	w := made(t, s)
	w.Begin()
	w.Begin()
	require.JSONEq(t, `{"id":"`+w.ID().String()+`","model_id":"m","url":"http://10.0.0.5:8000",
		"models":[{"id":"m","model_type":["chat","completions","responses","tools"],"context_length":32768}],
		"worker_type":"regular","connection_mode":"http","runtime_type":"sglang","labels":{"tp_size":"1","served_model_name":"m","max_model_len":"32768"},
		"priority":50,"cost":1,"max_connection_attempts":20,"is_healthy":true,"status":"ready","load":2,"http2":false,
		"overload":{"token_usage":0.9},"health":{"timeout_secs":2},"http_pool":{"timeout_secs":5},"resilience":{"cb_failure_threshold":2}}`, shown(t, w.View()))
}

// workers.md section 2
func TestViewLeavesOutWhatNobodyGave(t *testing.T) {
	w := made(t, NewSpec("http://w:1"))
	w.SetStatus(Draining)
	require.JSONEq(t, `{"id":"`+w.ID().String()+`","url":"http://w:1","worker_type":"regular","connection_mode":"http","runtime_type":"unspecified",
		"priority":50,"cost":1,"max_connection_attempts":20,"is_healthy":false,"status":"draining","load":0,"http2":false}`, shown(t, w.View()))
}

// workers.md section 18: a list shows what a single worker's page does, byte for byte, however often it has been asked for.
func TestAppendedViewIsTheView(t *testing.T) {
	const full = `{"url":"http://10.0.0.5:8000","runtime_type":"sglang","worker_type":"prefill","bootstrap_port":8998,"labels":{"a":"<&>\"\u2028é","max_model_len":"9"},
		"models":[{"id":"m","aliases":["n"]}],"cost":0.1,"http_pool":{"http2":true},"health":{"timeout_secs":2},"overload":{"token_usage":0.9},"api_key":"hidden"}`
	spec, err := ParseSpec([]byte(full))
	require.NoError(t, err)
	rank := NewSpec("http://w:1@2")
	same := func(w *Worker) {
		t.Helper()
		got, err := w.AppendView([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, "before"+shown(t, w.View()), string(got))
	}
	for _, s := range []Spec{spec, rank, NewSpec("http://w:1")} {
		w, err := New(s, DefaultSettings())
		require.NoError(t, err)
		same(w)
		for _, to := range []Status{Ready, NotReady, Failed, Draining} {
			w.SetStatus(to)
			w.Begin()
			same(w)
		}
		for _, usage := range []float64{0.25, 1e-9} { // a new report is shown, an old one no longer
			at := time.Unix(1, 0)
			w.SetReport(NewReport(at, at, "now", []RankLoad{{Running: 3, Usage: usage}, {Rank: 1}}))
			same(w)
			same(w)
		}
		w.SetReport(nil)
		same(w)
		require.True(t, NewRegistry(w).Cordon(w, true))
		same(w)
	}
}

// workers.md section 16: what is remembered of a worker's view is not that of its replacement.
func TestAppendedViewOfAReplacement(t *testing.T) {
	w := made(t, NewSpec("http://w:1"))
	r := NewRegistry(w)
	_, err := w.AppendView(nil)
	require.NoError(t, err)
	spec := w.Spec().Clone()
	spec.Priority = 7
	now, err := newWorker(w.ID(), spec, DefaultSettings())
	require.NoError(t, err)
	now.succeed(w)
	require.True(t, r.Replace(w, now))
	got, err := r.ByID(w.ID()).AppendView(nil)
	require.NoError(t, err)
	require.Contains(t, string(got), `"priority":7`)
	require.Equal(t, shown(t, now.View()), string(got))
}
