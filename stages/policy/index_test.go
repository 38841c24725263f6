package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// cache-aware.md, section 2.3
func TestIndexCountsWhatEachWorkerWasSent(t *testing.T) {
	r := newRig(t, 2, Settings{})
	r.put(textPrompt("hello"), 0)
	require.Equal(t, 5, r.total())
	r.put(textPrompt("hello"), 1)
	require.Equal(t, 10, r.total())
	r.put(textPrompt("help!"), 0)
	require.Equal(t, 12, r.total(), "only p! is new")
	require.ElementsMatch(t, []string{"hel 0 1", "  lo 0 1", "  p! 0"}, r.drawing(r.texts()))
	r.put(textPrompt("help!"), 0)
	require.Equal(t, 12, r.total(), "to record it again changes nothing but stamps")
	r.audit()
}

// cache-aware.md, section 2.3
func TestIndexTakesWholePagesOfTokens(t *testing.T) {
	r := newRig(t, 2, Settings{})
	r.put(sequence(0, 40), 0)
	require.Equal(t, 32, r.total())
	r.put(sequence(0, 40), 1)
	require.Equal(t, 64, r.total())
	r.put(sequence(0, 15), 0)
	r.put(sequence(0, 15), 1)
	require.Equal(t, 64, r.total())
	require.Zero(t, r.holding(sequence(0, 15), 0), "less than a page never matches")
	r.audit()
}

// cache-aware.md, sections 2.1 and 2.3: units are characters.
func TestIndexMatchesWholeCharacters(t *testing.T) {
	tests := []struct {
		name, stored, asked string
		matched, input      int
	}{
		{"a text matches up to the first other character", "日本語テキスト", "日本語モデル", 3, 6},
		{"characters that share their first byte do not match", "é", "è", 0, 1},
		{"characters that share two bytes of three do not match", "日", "旦", 0, 1},
		{"a text matches itself", "hello", "hello", 5, 5},
		{"a match may end within an edge", "hello world", "hello", 5, 5},
		{"a longer text matches what is there", "hello", "hello world", 5, 11},
		{"nothing matches an empty text", "hello", "", 0, 0},
		{"no text matches where none is", "", "hello", 0, 5},
		{"characters of four bytes count once", "a😀b😀", "a😀b😁", 3, 4},
		{"a long text of mixed characters counts characters", "aé日😀aé日😀aé日😀aé日😀aé日😀", "aé日😀aé日😀aé日😀aé日😀aé日😀!", 20, 21},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, Settings{})
			r.put(textPrompt(tt.stored), 0)
			matched, input := r.has(textPrompt(tt.asked), 0)
			require.Equal(t, tt.matched, matched)
			require.Equal(t, tt.input, input)
			r.put(textPrompt(tt.asked), 0)
			r.audit()
		})
	}
}

// cache-aware.md, section 3, the check of tokens
func TestIndexMatchesWholePages(t *testing.T) {
	tests := []struct {
		name           string
		shared, asked  int // of 40 that are stored
		matched, input int
	}{
		{"the same ids match in whole pages", 40, 40, 32, 40},
		{"a shared page matches", 16, 20, 16, 20},
		{"less than a page does not", 15, 15, 0, 15},
		{"a page that is shared in part does not match", 31, 100, 16, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, Settings{})
			r.put(sequence(0, 40), 0)
			asked := sequence(0, tt.shared)
			asked.Tokens = append(asked.Tokens, sequence(1000, tt.asked-tt.shared).Tokens...)
			matched, input := r.has(asked, 0)
			require.Equal(t, tt.matched, matched)
			require.Equal(t, tt.input, input)
		})
	}
}

// cache-aware.md, section 0: text and tokens of one model never match each other, and neither do models.
func TestIndexKeepsTextsTokensAndModelsApart(t *testing.T) {
	r := newRig(t, 1, Settings{BlockSize: 1})
	p := sequence(0x61616161, 1) // "aaaa" as memory
	r.put(p, 0)
	require.Zero(t, r.holding(textPrompt("aaaa"), 0))
	require.Equal(t, 1, r.holding(p, 0))
	v := r.look("other", &p)
	defer v.close()
	require.Zero(t, v.units(r.workers[0]))
}

// cache-aware.md, section 2.2: every holder of every depth is known, whatever their number.
func TestIndexTellsHowMuchEachWorkerHas(t *testing.T) {
	r := newRig(t, 40, Settings{})
	whole := "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	for w := range r.workers {
		r.put(textPrompt(whole[:w+1]), w)
	}
	v := r.look("m", &[]pipeline.RoutingPrompt{textPrompt(whole)}[0])
	defer v.close()
	require.Equal(t, 40, v.best)
	for i, w := range r.workers {
		require.Equal(t, i+1, v.units(w))
	}
	r.audit()
}

// cache-aware.md, section 1.3
func TestPartitionsShareNothing(t *testing.T) {
	r := newRig(t, 1, Settings{})
	salted := func(partition uint64, p pipeline.RoutingPrompt) pipeline.RoutingPrompt {
		p.Partition = partition
		return p
	}
	for _, p := range []pipeline.RoutingPrompt{textPrompt("the same prompt"), sequence(0, 64)} {
		_, all := r.has(p, 0)
		r.put(salted(1, p), 0)
		require.Zero(t, r.holding(salted(2, p), 0))
		require.Zero(t, r.holding(p, 0), "what is in no partition is apart as well")
		require.Equal(t, all, r.holding(salted(1, p), 0), "the partition takes nothing away from the prompt")
		r.put(p, 0)
		require.Zero(t, r.holding(salted(2, p), 0))
		require.Equal(t, all, r.holding(p, 0))
	}
	require.Equal(t, 2*15+2*64, r.total(), "all share the limit of the tree")
	r.audit()
	r.shrink(0)
	r.audit()
	require.Zero(t, r.memory.used.Load())
}

// cache-aware.md, section 2.6
func TestIndexKeepsNothingOfTheRequest(t *testing.T) {
	r := newRig(t, 1, Settings{})
	text := []byte("a prompt in memory that the next request gets")
	p := sequence(0, 32)
	r.put(textPrompt(string(text)), 0)
	r.put(p, 0)
	clear(p.Tokens)
	require.Equal(t, 32, r.holding(sequence(0, 32), 0))
	require.Equal(t, len(text), r.holding(textPrompt(string(text)), 0))
}
