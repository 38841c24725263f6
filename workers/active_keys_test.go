package workers

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// policies.md, section 1: distinct keys with a request in flight, with a count of each.
func TestActiveKeysAreThoseInFlight(t *testing.T) {
	w := made(t, NewSpec("http://a:1"))
	counts := func() []int { return []int{int(w.ActiveKeys()), w.KeyInFlight("a"), w.KeyInFlight("b")} }
	w.EndKey("a")
	require.Equal(t, []int{0, 0, 0}, counts())
	w.BeginKey("a")
	w.BeginKey("a")
	w.BeginKey("b")
	require.Equal(t, []int{2, 2, 1}, counts())
	w.EndKey("a")
	require.Equal(t, []int{2, 1, 1}, counts())
	w.EndKey("b")
	require.Equal(t, []int{1, 1, 0}, counts())
	w.EndKey("a")
	require.Equal(t, []int{0, 0, 0}, counts())
	require.Empty(t, w.traffic.keys.counts, "a key without requests is not kept")
	require.Zero(t, w.InFlight(), "requests are counted by Begin")
}

// policies.md, section 1: the counts are right whoever counts at once.
func TestActiveKeysAreCountedConcurrently(t *testing.T) {
	w := made(t, NewSpec("http://a:1"))
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := range 500 {
				key := fmt.Sprint((c + i) % 5)
				w.BeginKey(key)
				if w.KeyInFlight(key) < 1 || w.ActiveKeys() < 1 {
					t.Error("its own is not counted")
				}
				w.EndKey(key)
			}
		})
	}
	clients.Wait()
	require.Zero(t, w.ActiveKeys())
}
