package replay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// least-work.md, section 4: the shapes of the workloads.
func TestWorkloadsAreAsTheSheetSays(t *testing.T) {
	made := func(name string) *Workload {
		w, err := NewWorkload(name, 8, 1, 0.2)
		require.NoError(t, err)
		return w
	}
	t.Run("shared: 6,000 of 150 prefixes and 1,200 of its own, 1,000 tokens of answer", func(t *testing.T) {
		prefixes := map[Segment]bool{}
		for _, r := range made("shared").Roots {
			prefixes[r.Prompt[0]] = true
			require.Equal(t, []int{6000, 1200, 1000}, []int{r.Prompt[0].Tokens, r.Prompt[1].Tokens, r.Output})
		}
		require.Len(t, prefixes, 150)
	})
	t.Run("sessions: 5 to 20 turns behind 20 system prompts, each turn with all before it", func(t *testing.T) {
		w, systems := made("sessions"), map[Segment]int{}
		var said []int
		for _, r := range w.Roots {
			systems[r.Prompt[0]]++
			turns, key := 0, r.Key
			said = append(said, r.Prompt[1].Tokens)
			for q := r; q != nil; q = q.Next {
				turns++
				require.Equal(t, key, q.Key)
				if q.Next != nil {
					require.Equal(t, q.Prompt, q.Next.Prompt[:len(q.Prompt)])
					require.Equal(t, q.Output, q.Next.Prompt[len(q.Prompt)].Tokens, "the answer is a part of the next prompt")
					require.GreaterOrEqual(t, q.Think, 2*time.Second)
				}
			}
			require.True(t, turns >= 5 && turns <= 20, "%d turns", turns)
		}
		slices.Sort(said)
		require.InDelta(t, 800, said[len(said)/2], 80)
		require.Len(t, systems, 20)
		require.Greater(t, systems[named(systemPrompt, 1, 1024)], 2*systems[named(systemPrompt, 4, 1024)], "Zipf")
	})
	t.Run("bursts: 8 to 32 requests 20 ms apart on 20,000 tokens, half of them return with 2,000 more", func(t *testing.T) {
		w, sizes, returns := made("bursts"), map[Segment]int{}, 0
		for _, r := range w.Roots {
			require.Equal(t, time.Duration(sizes[r.Prompt[0]])*20*time.Millisecond, r.Delay)
			sizes[r.Prompt[0]]++
			require.Equal(t, 20_500, tokensOf(r.Prompt))
			require.True(t, r.Output >= 20 && r.Output <= 150)
			if r.Next != nil {
				returns++
				require.Equal(t, 22_500, tokensOf(r.Next.Prompt))
			}
		}
		for _, n := range sizes {
			require.True(t, n >= 8 && n <= 32, "%d", n)
		}
		require.InDelta(t, 0.5, float64(returns)/float64(len(w.Roots)), 0.05)
	})
	t.Run("hot: 40 % on one prefix of 8,000", func(t *testing.T) {
		w, hot := made("hot"), 0
		for _, r := range w.Roots {
			if tokensOf(r.Prompt) == 8500 {
				hot++
			} else {
				require.Equal(t, 4800, tokensOf(r.Prompt))
			}
		}
		require.InDelta(t, 0.4, float64(hot)/float64(len(w.Roots)), 0.05)
	})
	t.Run("conv and synth: all requests of the traces, ticks spread", func(t *testing.T) {
		for name, n := range map[string]int{"conv": 12_031, "synth": 3_993} {
			w, err := NewWorkload(name, 8, 1, 1)
			require.NoError(t, err)
			require.Len(t, w.Roots, n)
			distinct := map[float64]bool{}
			for i, r := range w.Roots {
				distinct[r.At] = true
				require.True(t, i == 0 || r.At >= w.Roots[i-1].At, "request %d comes before the one in front of it", i)
			}
			require.Len(t, distinct, n)
		}
	})
	_, err := NewWorkload("nothing", 1, 1, 1)
	require.ErrorContains(t, err, "conv")
}

// least-work.md, section 4: equal prefixes are equal tokens, and so equal pages; all else differs.
func TestPromptsShareWhatTheirSegmentsShare(t *testing.T) {
	pages := func(prompt ...Segment) []uint64 {
		return engine.PageDigests(nil, appendTokens(nil, prompt), pageTokens)
	}
	a, b := pages(Segment{1, 128}, Segment{2, 128}), pages(Segment{1, 128}, Segment{3, 128})
	require.Equal(t, a[:2], b[:2])
	require.NotEqual(t, a[2], b[2])
	require.NotEqual(t, a[3], b[3])
	require.NotEqual(t, a[2], pages(Segment{2, 128})[0], "behind something else it is another page")
}

// least-work.md, section 5: tokens of the prompt wrong by ±30 %.
func TestMisjudgedPromptsKeepTheirPrefixes(t *testing.T) {
	prompt := []Segment{{1 << 8, 1000}, {2 << 8, 1000}, {3 << 8, 1000}}
	seen := misjudged(nil, prompt, 0.3, 0)
	require.Equal(t, seen[:2], misjudged(nil, prompt[:2], 0.3, 0))
	require.NotEqual(t, seen[0].Tokens, seen[1].Tokens)
	for i, s := range seen {
		require.Equal(t, prompt[i].ID, s.ID)
		require.True(t, s.Tokens >= 700 && s.Tokens <= 1300, "%d", s.Tokens)
	}
	require.Equal(t, prompt, misjudged(nil, prompt, 0, 0))
}

// Issue 5, part 8: --trace takes a trace of one's own.
func TestATraceOfOnesOwn(t *testing.T) {
	tests := []struct{ name, trace, says string }{
		{"is read", `{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1,2]}` + "\n\n" + `{"timestamp":10,"input_length":512,"output_length":0,"hash_ids":[1]}`, ""},
		{"must not be empty", "\n", "no request"},
		{"must be JSON", "{}\nx", "line 1"},
		{"must have an id for each block", `{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1]}`, "one for each 512"},
		{"must not go back in time", `{"timestamp":5,"input_length":1,"output_length":3,"hash_ids":[1]}` + "\n" + `{"timestamp":4,"input_length":1,"output_length":3,"hash_ids":[1]}`, "line 2: timestamp goes back"},
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

func FuzzTrace(f *testing.F) {
	f.Add(`{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[1,2]}`)
	f.Add(`{"timestamp":0}` + "\n" + `[]`)
	f.Fuzz(func(t *testing.T, trace string) {
		records, err := parseTrace(strings.NewReader(trace))
		if err != nil {
			return
		}
		for i, r := range spread(records) {
			require.Equal(t, records[i].Input, tokensOf(r.Prompt))
			require.Positive(t, r.Output)
		}
	})
}
