package stages

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 2.4
func TestRerankAnswer(t *testing.T) {
	const worker = ` [{"score":0.90,"document":"b","index":1,"meta_info":{"document":"x"}}, {"index":0,"document":"a","score":-1e-3}] `
	const tail = `,"model":"m","usage":null,"object":"rerank","id":`
	tests := []struct{ name, request, worker, answer string }{
		{
			"order and bytes are the worker's", `{}`, worker,
			`{"results":[{"score":0.90,"document":"b","index":1,"meta_info":{"document":"x"}},{"index":0,"document":"a","score":-1e-3}]` + tail + `null,"created":7}`,
		},
		{
			"top_k keeps the first", `{"top_k":1}`, worker,
			`{"results":[{"score":0.90,"document":"b","index":1,"meta_info":{"document":"x"}}]` + tail + `null,"created":7}`,
		},
		{
			"a top_k above the count keeps all", `{"top_k":99,"return_documents":false}`, worker,
			`{"results":[{"score":0.90,"index":1,"meta_info":{"document":"x"}},{"index":0,"score":-1e-3}]` + tail + `null,"created":7}`,
		},
		{
			"return_documents null is the default", `{"return_documents":null,"top_k":null}`, `[{"document":"a","score":1,"index":0}]`,
			`{"results":[{"document":"a","score":1,"index":0}]` + tail + `null,"created":7}`,
		},
		{
			"documents that were not asked for go, wherever they stand", `{"return_documents":false}`, `[{"document":"a","score":1,"index":0}]`,
			`{"results":[{"score":1,"index":0}]` + tail + `null,"created":7}`,
		},
		{"the id is the rid", `{"rid":"r\u00e9"}`, `[]`, `{"results":[]` + tail + `"r\u00e9","created":7}`},
		{"the id is the list of rids", `{"rid":["a","b"]}`, `[]`, `{"results":[]` + tail + `["a","b"],"created":7}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rerankRequestOf([]byte(tt.request), scanned(t, tt.request), "m")
			answer, err := r.answer([]byte(tt.worker), time.Unix(7, 5))
			require.Nil(t, err)
			require.Equal(t, tt.answer, string(answer))
			require.True(t, json.Valid(answer))
		})
	}
}

// http-dataplane.md, section 2.4
func TestRerankAnswerOfAWorkerThatDoesNotRerank(t *testing.T) {
	for name, worker := range map[string]string{
		"nothing":                 ``,
		"white space":             ` `,
		"an object of no results": `{"answer":[]}`,
		"an array that is cut":    `[{"score":1,"index":0}`,
		"an array with a tail":    `[] x`,
		"results that are none":   `[1]`,
		"a result without score":  `[{"score":1,"index":0},{"index":1}]`,
		"a result without index":  `[{"score":1}]`,
		"a score that is a text":  `[{"score":"1","index":0}]`,
		"a bad result behind k":   `[{"score":1,"index":0},7]`,
		"a page of something":     `<html>`,
		"a score that is missing": `[{"score":null,"index":0}]`,
	} {
		answer, err := rerankRequest{TopK: 1, Model: "m", RID: "null"}.answer([]byte(worker), time.Now())
		require.NotNil(t, err, name)
		require.Empty(t, answer, name)
		require.Equal(t, 500, err.Status, name)
		require.Equal(t, "rerank_response_build_failed", err.Code, name)
	}
}

// Some engines answer /v1/rerank with the finished object.
func TestRerankAnswerThatIsFinishedIsRelayed(t *testing.T) {
	worker := `{"id":"r1","results":[{"index":1,"relevance_score":0.5}]}`
	answer, err := rerankRequest{TopK: 1, Model: "m", RID: "null"}.answer([]byte(worker), time.Now())
	require.Nil(t, err)
	require.Equal(t, worker, string(answer))
}

func FuzzRerankAnswer(f *testing.F) {
	f.Add([]byte(`[{"score":1,"document":"d","index":0}]`), 1, false)
	f.Add([]byte(`[{"score":1,"index":0},{}]`), 0, true)
	f.Fuzz(func(t *testing.T, worker []byte, topK int, documents bool) {
		answer, err := rerankRequest{TopK: max(topK, 0), ReturnDocuments: documents, Model: "m\n", RID: "null"}.answer(worker, time.Now())
		require.Equal(t, err == nil, json.Valid(answer))
	})
}
