package replay

import (
	"slices"
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

// least-work.md, section 4: equal prefixes are equal tokens, and so equal pages; all else differs. The pages that are made of segments are
// alike where those are that engines make of the tokens.
func TestPromptsShareWhatTheirSegmentsShare(t *testing.T) {
	prompts := [][]Segment{
		{{1, 128}, {2, 128}},
		{{1, 128}, {3, 128}},
		{{2, 128}},
		{{2, 256}},
		{{1, 128}},
		{{1, 127}, {2, 128}},
		{{1, 128}, {2, 63}},
		{{1, 10}, {2, 10}, {1, 44}, {3, 64}},
		{{1, 10}, {2, 11}, {1, 43}, {3, 64}},
		{{1, 64}, {1, 64}, {1, 64}},
		{{1, 192}},
		{{3, 63}},
	}
	segments, tokens, made := map[uint64]uint64{}, map[uint64]uint64{}, new(tokenizer)
	for _, prompt := range prompts {
		bySegment := appendPages(nil, prompt, pageTokens)
		byToken := engine.PageDigests(nil, made.append(nil, prompt), pageTokens)
		require.Len(t, bySegment, len(byToken))
		for i := range byToken {
			if known, ok := segments[byToken[i]]; ok {
				require.Equal(t, known, bySegment[i], "page %d of %v", i, prompt)
			}
			if known, ok := tokens[bySegment[i]]; ok {
				require.Equal(t, known, byToken[i], "page %d of %v", i, prompt)
			}
			segments[byToken[i]], tokens[bySegment[i]] = bySegment[i], byToken[i]
		}
	}
	a, b := appendPages(nil, prompts[0], pageTokens), appendPages(nil, prompts[1], pageTokens)
	require.Equal(t, a[:2], b[:2])
	require.NotEqual(t, a[2], b[2])
	require.NotEqual(t, a[3], b[3])
	require.NotEqual(t, a[2], appendPages(nil, prompts[2], pageTokens)[0], "behind something else it is another page")
}

// The digests that are made beforehand, some shared with the next request, are those of the prompt.
func TestRequestsKnowTheirPages(t *testing.T) {
	for _, name := range Workloads() {
		w, err := NewWorkload(name, 2, 1, 0.05)
		require.NoError(t, err)
		for _, r := range w.Roots {
			for ; r != nil; r = r.Next {
				require.Equal(t, tokensOf(r.Prompt), r.tokens)
				require.Equal(t, appendPages([]uint64{}, r.Prompt, w.Page), r.pages)
			}
		}
	}
}

// A segment has the same tokens whether they are made or were kept, for another segment or another length of it too.
func TestTokensDoNotDependOnWhatCameBefore(t *testing.T) {
	long, made := 2*longSegment, new(tokenizer)
	for range 3 {
		for id := range uint64(1500) {
			s := Segment{id, long + int(id%7)}
			require.True(t, slices.Equal(appendTokens(nil, s), made.append(nil, []Segment{s})), "%v", s)
			s.Tokens = longSegment + int(id%3)
			require.True(t, slices.Equal(appendTokens(nil, s), made.append(nil, []Segment{s})), "%v", s)
		}
	}
	ids := appendTokens(nil, Segment{7, 101})
	require.Len(t, ids, 101)
	require.Equal(t, ids[:100], appendTokens(nil, Segment{7, 100}), "a segment that is cut begins as the whole")
	state := mix(7)
	for _, id := range ids {
		state += weyl
		require.Equal(t, uint32(state*weyl>>32), id)
	}
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
