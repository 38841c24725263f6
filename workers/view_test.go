package workers

import (
	"encoding/json"
	"testing"

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
