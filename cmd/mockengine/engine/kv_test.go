package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// least-work.md, section 4: one cache of several engines. What one computes makes room for a request of another that shares it.
func TestARequestBeginsOnceAnotherEngineHasItsPrompt(t *testing.T) {
	cfg := ModelConfig{KVTokens: 10 * 16, PrefillChunk: 64}.Complete()
	cache := NewKVCache(cfg.Pages())
	m, other := NewModel(cfg, cache), NewModel(cfg, cache)
	before := watch(m, prompt(2, 0, 16), 1)
	m.Submit(0, &before.Job)
	start := runOut(t, m)
	a, b := watch(m, prompt(1, 0, 128), 16), watch(other, prompt(1, 0, 128), 16)
	m.Submit(start, &a.Job) // takes nine of ten pages
	other.Submit(start, &b.Job)
	require.Equal(t, 1, other.Load().Waiting)
	for range 2 { // chunks
		at, ok := m.Next()
		require.True(t, ok)
		m.Advance(at)
		other.Advance(at)
	}
	require.Zero(t, other.Load().Waiting, "of the prompt's eight pages it needs none of its own")
	require.Less(t, len(a.at), a.Output, "the first is not over")
	for range 100 {
		for _, one := range []*Model{m, other} {
			if at, ok := one.Next(); ok {
				one.Advance(at)
			}
		}
	}
	require.Len(t, b.at, b.Output)
	requireQuiet(t, m)
}

// A page that was evicted is not found behind the one that it stood behind, though nobody has taken its place.
func TestAPageThatIsGoneIsNotFound(t *testing.T) {
	m := NewModel(ModelConfig{KVTokens: 4 * 16}, nil)
	first, second, again := watch(m, prompt(1, 0, 32), 1), watch(m, prompt(2, 0, 15), 30), watch(m, prompt(1, 0, 33), 1)
	for _, j := range []*watched{first, second, again} {
		at, _ := m.Next()
		m.Submit(at, &j.Job)
		runOut(t, m)
	}
	require.Equal(t, 16, again.Cached, "the second took the room of one page, and has left none of its own")
	requireQuiet(t, m)
}
