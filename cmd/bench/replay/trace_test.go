package replay

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// --trace takes a trace of one's own.
func TestATraceOfOnesOwn(t *testing.T) {
	tests := []struct{ name, trace, says string }{
		{"is read", `{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1,2]}` + "\n\n" + `{"timestamp":10,"input_length":512,"output_length":0,"hash_ids":[1]}`, ""},
		{"may be in the order of the ends", `{"timestamp":12,"input_length":512,"output_length":0,"hash_ids":[1]}` + "\n" + `{"timestamp":2,"input_length":600,"output_length":3,"hash_ids":[1,2]}`, ""},
		{"must not be empty", "\n", "no request"},
		{"must be JSON", "{}\nx", "line 1"},
		{"must be lines of objects", "[]", "line 1 is no JSON object of a trace"},
		{"must have an id for each block", `{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1]}`, "line 1 has 1 hash_ids for 600 tokens; there must be one for each 512"},
		{"must not begin before its beginning", `{"timestamp":-5,"input_length":1,"output_length":3,"hash_ids":[1]}`, "timestamp of -5"},
		{"must have a prompt", `{"timestamp":5,"input_length":0,"output_length":3,"hash_ids":[]}`, "input_length"},
		{"must not be endless", `{"timestamp":5,"input_length":1,"output_length":99999999,"hash_ids":[1]}`, "output_length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "trace.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(tt.trace), 0o600))
			w, err := FromTrace(file)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []Segment{{1, 512}, {2, 88}}, w.Roots[0].Prompt)
			require.Equal(t, 1, w.Roots[1].Output, "an answer has a token at least")
		})
	}
	_, err := FromTrace(filepath.Join(t.TempDir(), "missing"))
	require.Error(t, err)
}

// recording are lines of a recording, with what else each says.
func recording(more ...string) string {
	var lines strings.Builder
	for _, m := range more {
		lines.WriteString(`{"input_length":600,"output_length":3,"hash_ids":[1,2],` + m + "}\n")
	}
	return lines.String()
}

// What --record writes is a trace that says more.
func TestARecordingIsATrace(t *testing.T) {
	t.Run("sessions keep their keys", func(t *testing.T) {
		w := workloadOf(t, recording(`"timestamp":0,"key":"a"`, `"timestamp":1`))
		require.Equal(t, []string{"a", ""}, []string{w.Roots[0].Key, w.Roots[1].Key})
	})
	t.Run("refusals were no work, failures and clients that left were", func(t *testing.T) {
		trace, err := ReadTrace(strings.NewReader(recording(`"timestamp":0,"status":400`, `"timestamp":0,"status":429`, `"timestamp":0,"status":499`, `"timestamp":0,"status":503`, `"timestamp":0,"status":200`)))
		require.NoError(t, err)
		require.Equal(t, []int{3, 2}, []int{trace.Len(), trace.Refused})
	})
	t.Run("a line that a crash has cut is left out", func(t *testing.T) {
		trace, err := ReadTrace(strings.NewReader(recording(`"timestamp":0`) + `{"input_length":60` + "\n" + recording(`"timestamp":1`) + `{"inp`))
		require.NoError(t, err)
		require.Equal(t, []int{2, 2}, []int{trace.Len(), trace.Torn})
	})
	t.Run("timestamps are exact: a burst stays one", func(t *testing.T) {
		w := workloadOf(t, recording(`"timestamp":0,"recording":7`, `"timestamp":0,"recording":7`, `"timestamp":1000,"recording":7`))
		require.InDelta(t, 3, w.Rate, 1e-9)
		require.InDelta(t, 0.0005, w.Roots[1].At/w.Rate, 1e-9, "seconds")
	})
	t.Run("recordings follow each other without the time between them", func(t *testing.T) {
		w := workloadOf(t, recording(`"timestamp":50,"recording":9000000`, `"timestamp":5000,"recording":7`, `"timestamp":7000,"recording":7`, `"timestamp":1050,"recording":9000000`))
		var at []float64
		for _, r := range w.Roots {
			at = append(at, math.Round(10*r.At/w.Rate)/10)
		}
		require.Equal(t, []float64{0, 2, 2, 3}, at, "seconds")
	})
	t.Run("lengths that were estimated are right on average", func(t *testing.T) {
		w := workloadOf(t, recording(`"timestamp":0,"prompt_tokens":900`, `"timestamp":1,"prompt_tokens":900`, `"timestamp":2`))
		require.Equal(t, 768, w.Page)
		for _, r := range w.Roots {
			require.Equal(t, []Segment{{1, 768}, {2, 132}}, r.Prompt)
		}
	})
	t.Run("a worker that counts nonsense does not make prompts endless", func(t *testing.T) {
		require.Equal(t, 16*512, workloadOf(t, recording(`"timestamp":0,"prompt_tokens":9000000000000`)).Page)
	})
	t.Run("models are told apart", func(t *testing.T) {
		trace, err := ReadTrace(strings.NewReader(recording(`"timestamp":0,"model":"a"`, `"timestamp":1,"model":"b"`, `"timestamp":2,"model":"b"`)))
		require.NoError(t, err)
		names, requests := trace.Models()
		require.Equal(t, []string{"b", "a"}, names)
		require.Equal(t, map[string]int{"a": 1, "b": 2}, requests)
		require.Equal(t, 2, trace.Only("b").Len())
		require.Zero(t, trace.Only("c").Workload().Requests)
	})
}

func workloadOf(t *testing.T, text string) *Workload {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text))
	require.NoError(t, err)
	return trace.Workload()
}

func FuzzTrace(f *testing.F) {
	f.Add(`{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1,2]}`)
	f.Add(`{"timestamp":0}` + "\n" + `[]`)
	f.Add(recording(`"timestamp":9,"prompt_tokens":-3,"recording":-1,"status":499`, `"timestamp":0,"prompt_tokens":1300,"key":"k"`) + `{"cut`)
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text))
		if err != nil || trace.Len() == 0 {
			return
		}
		w := trace.Workload()
		require.Equal(t, trace.Len(), w.Requests)
		require.Positive(t, w.Page)
		for i, r := range w.Roots {
			require.Positive(t, tokensOf(r.Prompt))
			require.Positive(t, r.Output)
			require.True(t, r.At >= 0 && (i == 0 || r.At >= w.Roots[i-1].At), "%g", r.At)
		}
	})
}
