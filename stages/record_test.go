package stages

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// recorded puts a recorder of a new file into the rig's chain.
func recorded(t testing.TB, r *rig) *Recorder {
	t.Helper()
	rec := newRecorder(t, filepath.Join(t.TempDir(), "traffic.jsonl"))
	r.demand.Raise(pipeline.WantText)
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.After("account", Record(rec, r.settings.path, r.settings.kind))
	})
	return rec
}

func newRecorder(t testing.TB, path string) *Recorder {
	t.Helper()
	rec := NewRecorder(path, telemetry.NewMetrics(telemetry.Options{}).Records, slog.New(slog.DiscardHandler))
	require.NoError(t, rec.Open())
	t.Cleanup(func() { _ = rec.Close() })
	return rec
}

// ended closes the recorder and gives the lines of its file.
func ended(t testing.TB, rec *Recorder) (all []RequestRecord) {
	t.Helper()
	require.NoError(t, rec.Close())
	text, err := os.ReadFile(rec.path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r RequestRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.Len(t, r.Blocks, blocksOf(r.Input), line)
		all = append(all, r)
	}
	return all
}

// Lengths in tokens, by usage or else estimated.
func TestALineSaysHowLongARequestWas(t *testing.T) {
	const generate, embeddings = "/generate", "/v1/embeddings"
	usage := engine.Fault{Body: `{"usage":{"prompt_tokens":14,"completion_tokens":8}}`}
	long := strings.Repeat("x", 4*RecordBlock+1)
	tests := []struct {
		name, path, body, hint string
		kind                   Kind
		fault                  engine.Fault
		want                   RequestRecord // beside what all have
	}{
		{"the worker counts", chatPath, small, "", Chat, usage, RequestRecord{Input: 1, Output: 8, PromptTokens: 14}},
		{"nobody counts an answer", chatPath, small, "", Chat, engine.Fault{Body: "123456789"}, RequestRecord{Input: 1, Output: 3}},
		{
			"nobody counts a stream: a token for each event but three", chatPath, stream, "", Chat,
			engine.Fault{Chunks: []string{": ping\n\n", "data: {}\n\nda", "ta: {}\n\ndata: {}\n\n", "data: \"data:\"\n\ndata: {}\r\n\r\n", "data: {}\n\n"}},
			RequestRecord{Input: 1, Output: 2, Stream: true},
		},
		{"an answer that is no text has no tokens", embeddings, `{"model":"m1","input":"hello"}`, "", Embeddings, engine.Fault{Body: "{}"}, RequestRecord{Input: 2}},
		{"a quarter of the characters, not of the bytes", generate, `{"text":"äöüß€"}`, "", Generate, usage, RequestRecord{Input: 2, Output: 8, PromptTokens: 14}},
		{"a block that is begun counts", generate, `{"text":"` + long + `"}`, "", Generate, usage, RequestRecord{Input: RecordBlock + 1, Output: 8, PromptTokens: 14}},
		{"token ids are counted", generate, `{"input_ids":[1,2,3]}`, "", Generate, usage, RequestRecord{Input: 3, Output: 8, PromptTokens: 14}},
		{"of a prompt whose head alone is known the worker says the rest", generate, `{"text":"x"}`, "1,2", Generate, engine.Fault{Body: `{"usage":{"prompt_tokens":1025,"completion_tokens":1}}`}, RequestRecord{Input: 1025, Output: 1, PromptTokens: 1025}},
		{"of a prompt without text too", chatPath, `{"model":"m1","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`, "", Chat, usage, RequestRecord{Input: 14, Output: 8, PromptTokens: 14}},
		{"a prompt has one token at least", chatPath, `{"model":"m1","messages":[{"role":"user","content":""}]}`, "", Chat, engine.Fault{Body: "{}"}, RequestRecord{Input: 1, Output: 1}},
		{"a refusal", chatPath, small, "", Chat, engine.Fault{Status: 400, Body: "12345"}, RequestRecord{Input: 1, Output: 2, Status: 400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, func(s *rigging) { s.path, s.kind = tt.path, tt.kind })
			rec := recorded(t, r)
			r.engines[0].SetFaults(tt.fault)
			require.NotZero(t, r.ask(post(tt.path, tt.body, "X-Smg-Routing-Tokens", tt.hint)).status)
			lines := ended(t, rec)
			require.Len(t, lines, 1)
			got := lines[0]
			require.GreaterOrEqual(t, got.Timestamp, int64(0))
			require.Equal(t, rec.began.UnixMilli(), got.Recording)
			tt.want.Timestamp, tt.want.Recording, tt.want.Blocks = got.Timestamp, got.Recording, got.Blocks
			tt.want.Route = tt.path
			if strings.Contains(tt.body, "m1") {
				tt.want.Model = "m1"
			}
			if tt.want.Status == 0 {
				tt.want.Status = 200
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// blocks are the hashes of a prompt.
func blocks(rec *Recorder, model string, p pipeline.RoutingPrompt) []uint64 {
	ids, _ := rec.promptPrints(&pipeline.Exchange{Model: model, Prompt: p, Client: post(chatPath, "")}, 0)
	return ids
}

// Two requests share a prefix exactly as far as their hash_ids agree.
func TestPromptsHaveEqualHashesAsFarAsTheyAreAlike(t *testing.T) {
	const block = charsOfToken * RecordBlock
	rec := NewRecorder("", nil, nil)
	text := func(s string) pipeline.RoutingPrompt { return pipeline.RoutingPrompt{Text: s} }
	first, second := strings.Repeat("ä", block), strings.Repeat("b", block)
	long := blocks(rec, "m", text(first+second+first+"end"))
	require.Len(t, long, 4)
	require.NotEqual(t, long[0], long[2], "a hash stands for all in front of it too")
	for _, id := range long {
		require.Less(t, id, uint64(1)<<53)
	}
	tests := []struct {
		name   string
		model  string
		prompt pipeline.RoutingPrompt
		shared int
	}{
		{"the same", "m", text(first + second + first + "end"), 4},
		{"another end", "m", text(first + second + first + "End"), 3},
		{"it goes on", "m", text(first + second + first + "ending"), 3},
		{"an insertion in front", "m", text("x" + first + second + first + "end"), 0},
		{"another second block", "m", text(first + "x" + second[1:] + first + "end"), 1},
		{"another model", "n", text(first + second + first + "end"), 0},
		{"another cache in the engine", "m", pipeline.RoutingPrompt{Text: first + second + first + "end", Partition: 7}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other, n := blocks(rec, tt.model, tt.prompt), 0
			for n < min(len(long), len(other)) && long[n] == other[n] {
				n++
			}
			require.Equal(t, tt.shared, n)
			for _, id := range other[n:] {
				require.NotContains(t, long, id)
			}
		})
	}
	tokens := make([]uint32, 2*RecordBlock+1)
	ids := blocks(rec, "m", pipeline.RoutingPrompt{Tokens: tokens})
	require.Len(t, ids, 3)
	tokens[RecordBlock]++
	require.Equal(t, ids[0], blocks(rec, "m", pipeline.RoutingPrompt{Tokens: tokens})[0])
	require.NotEqual(t, ids[1], blocks(rec, "m", pipeline.RoutingPrompt{Tokens: tokens})[1])
	require.NotEqual(t, blocks(rec, "m", text("")), blocks(rec, "m", text("")), "what was not seen is like nothing")
	require.NotEqual(t, long, blocks(NewRecorder("", nil, nil), "m", text(first+second+first+"end")), "another recording has another salt")
}

// Sessions stay together, and the key is not in the file.
func TestRoutingKeysAreHashed(t *testing.T) {
	r := newRig(t, 1, nil)
	rec := recorded(t, r)
	for _, key := range []string{"alice", "alice", "bob", ""} {
		r.ask(post(chatPath, small, "X-Smg-Routing-Key", key))
	}
	lines := ended(t, rec)
	require.Len(t, lines, 4)
	require.Equal(t, lines[0].Key, lines[1].Key)
	require.NotEqual(t, lines[0].Key, lines[2].Key)
	require.Regexp(t, "^[0-9a-f]{16}$", lines[0].Key)
	require.Empty(t, lines[3].Key)
}

// DESIGN, section 7: however a request ends, it is one line, with the status that the others count. What is refused before its model is
// known is none.
func TestHoweverARequestEndsItIsOneLine(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			r := newRig(t, e.engines, e.with)
			rec := recorded(t, r)
			reached := false
			r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
				return c.Before("record", pipeline.StageFunc("reach", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
					reached = true
					c := x.Client
					err := next(x)
					require.Same(t, c, x.Client, "the client is what it was")
					return err
				}))
			})
			e.do(t, r)
			lines := ended(t, rec)
			if !reached {
				require.Empty(t, lines)
				return
			}
			require.Len(t, lines, 1)
			require.Equal(t, 1, r.responses(t, lines[0].Status))
		})
	}
}

// responses is how many responses were counted with a status, whatever their code.
func (r *rig) responses(t testing.TB, status int) (sum int) {
	t.Helper()
	for series, n := range r.counted(t) {
		if strings.HasPrefix(series, "http_responses_total{") && strings.HasSuffix(series, fmt.Sprintf(" %d}", status)) {
			sum += n
		}
	}
	return sum
}

func TestADryRunIsNotRecorded(t *testing.T) {
	r := newRig(t, 1, nil)
	rec := recorded(t, r)
	rehearsed(t, r, nil)
	require.Empty(t, ended(t, rec))
}
