package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/telemetry"
)

// recordedTo are the lines of a recording.
func recordedTo(t *testing.T, path string) (all []stages.RequestRecord) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var r stages.RequestRecord
		require.NoError(t, json.Unmarshal(line, &r), "%s", line)
		all = append(all, r)
	}
	return all
}

// --record FILE writes a line for each request, whatever the policy reads, and is told at the end.
func TestRequestsAreRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	e := engine.Start(t, engine.Config{Models: []string{"m1"}})
	g := start(t, func(c *Config) { c.Record, c.DisableRetries = path, true }, e) // a body of this size would not be read without it
	long := fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("word ", 2000))
	require.Equal(t, http.StatusOK, g.post(t, chatPath, long, "X-SMG-Routing-Key", "k").StatusCode)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chats).StatusCode)
	require.Equal(t, http.StatusOK, g.post(t, "/v1/embeddings", `{"model":"m1","input":"hi"}`).StatusCode)
	require.Equal(t, http.StatusNotFound, g.post(t, chatPath, `{"model":"m2","messages":[{"role":"user","content":"hi"}]}`).StatusCode)
	require.Equal(t, http.StatusOK, g.get(t, "/v1/models").StatusCode)
	g.until(t, func() bool {
		return strings.Contains(g.metricsText(t), `smg_record_requests_total{result="written"} 3`)
	})
	g.end(t)
	require.Contains(t, g.Log.String(), "recording ended")

	lines := recordedTo(t, path)
	require.Len(t, lines, 3, "a model that nobody serves is no traffic of anybody's")
	require.Equal(t, 2500, lines[0].Input)
	require.Len(t, lines[0].Blocks, 5)
	require.Equal(t, 16, lines[0].Output)
	require.NotEmpty(t, lines[0].Key)
	require.True(t, lines[1].Stream)
	require.Equal(t, "/v1/embeddings", lines[2].Route)
	require.Zero(t, lines[2].Output)
}

// DESIGN, section 1: you pay for what you assemble.
func TestWithoutTheFlagNothingIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	for flag, there := range map[string]bool{"": false, path: true} {
		cfg := Default()
		cfg.Record = flag
		var way bytes.Buffer
		require.NoError(t, Pipelines(cfg, "POST "+chatPath, "text", &way))
		require.Equal(t, there, strings.Contains(way.String(), "\n  record "), way.String())
	}
	require.NoFileExists(t, path, "to show what would be done is not to do it")
}

// cli.md, section 9: what cannot be opened ends the start, and the flag is named.
func TestAFileThatCannotBeRecordedToEndsTheStart(t *testing.T) {
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.Record = filepath.Join(t.TempDir(), "missing", "traffic.jsonl")
	want := "cannot open the file of --record: open " + cfg.Record + ": no such file or directory"
	logs, err := telemetry.NewLogger(telemetry.LogOptions{Stdout: &lines{}, Env: func(string) string { return "" }})
	require.NoError(t, err)
	s, err := listen(cfg, logs)
	require.EqualError(t, err, want)
	require.NotNil(t, s)
	s.gateway.close(t.Context())

	cfg.Port = 1
	_, err = New(cfg, nil)
	require.EqualError(t, err, want)
}
