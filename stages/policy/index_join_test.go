package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nodes that a split left are one again when one of the two ways has gone, if nothing is lost by it.
func TestANodeIsJoinedWithItsOnlyChild(t *testing.T) {
	tests := []struct {
		name    string
		prompts []string // "1 text": for worker 1
		left    []string
	}{
		{"nothing was split", []string{"0 SYS one", "0 SYS"}, []string{"SYS one 0"}},
		{"with one stamp", []string{"0 SYS", "0 SYS one"}, []string{"SYS one 0"}},
		{"several below each other", []string{"0 a", "0 ab", "0 abc", "0 abcd"}, []string{"abcd 0"}},
		{"of two ways one is younger", []string{"0 SYS one", "0 SYS two"}, []string{"SYS  0", "  one 0", "  two 0"}},
		{"of several workers", []string{"0 SYS", "0 SYS one", "1 SYS", "1 SYS one"}, []string{"SYS one 0 1"}},
		{"one worker has less", []string{"0 SYS", "0 SYS one", "1 SYS"}, []string{"SYS 0 1", "   one 0"}},
		{"one worker has used less", []string{"0 SYS", "0 SYS one", "1 SYS", "1 SYS one", "1 SYS"}, []string{"SYS 0 1", "   one 0 1"}},
		{"longer than an edge", []string{"0 " + prose(maxEdge, 1) + "more"}, []string{prose(maxEdge, 1) + " 0", "  more 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, Settings{})
			for _, p := range tt.prompts {
				r.put(textPrompt(p[2:]), int(p[0]-'0'))
			}
			units := r.total()
			r.texts().evict(0, inUnits)
			require.ElementsMatch(t, tt.left, r.drawing(r.texts()))
			require.Equal(t, units, r.total())
			for _, p := range tt.prompts {
				require.Equal(t, len(p)-2, r.holding(textPrompt(p[2:]), int(p[0]-'0')))
			}
			r.audit()
		})
	}
}

func TestPagesAreJoined(t *testing.T) {
	r := newRig(t, 1, Settings{BlockSize: 16})
	r.put(sequence(0, 32), 0)
	r.put(sequence(0, 64), 0)
	tokens := (*r.trees.Load())[treeName{"m", true}]
	tokens.evict(0, inUnits)
	require.Len(t, tokens.descend(nil, tokenKey(sequence(0, 64).Tokens), 0), 1)
	require.Equal(t, 64, r.holding(sequence(0, 64), 0))
	require.Equal(t, 16, r.holding(sequence(0, 31), 0))
	r.audit()
}

// Case C29, part 3: prompts that share a part of one before take as much memory after any number of them.
func TestMemoryReachesAPlateauWherePromptsAreSplit(t *testing.T) {
	const trunks, length, limit = 50, 4096, 1 << 20
	r := newRig(t, 2, Settings{MaxTreeSize: limit})
	random := rand.New(rand.NewPCG(1, 2))
	send := func(n int) (bytes int64) {
		for i := range n {
			cut := 10 + random.IntN(length-10)
			r.put(textPrompt(scattered(length, uint64(random.IntN(trunks)))[:cut]+scattered(400, random.Uint64())), i%2)
			if i%500 == 0 {
				r.sweep()
			}
		}
		r.sweep()
		r.audit()
		return r.memory.used.Load()
	}
	first := send(10_000)
	require.Less(t, send(10_000), first*11/10)
}
