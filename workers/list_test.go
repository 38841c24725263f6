package workers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// DESIGN 3, lists
func TestIdentityNamesMembersAndOrder(t *testing.T) {
	a, b, c := made(t, NewSpec("http://a:1")), made(t, NewSpec("http://b:1")), made(t, NewSpec("http://c:1"))
	again := made(t, NewSpec("http://a:1"))
	lists := []List{{}, ListOf(a), ListOf(b), ListOf(a, b), ListOf(b, a), ListOf(a, b, c), ListOf(a, c), ListOf(again), ListOf(again, b)}
	seen := map[Identity]int{}
	for i, l := range lists {
		other, taken := seen[l.Identity()]
		require.False(t, taken, "lists %d and %d have one identity", i, other)
		seen[l.Identity()] = i
	}
	r := NewRegistry(a, b, c)
	published := r.Pool("", Regular, HTTP)
	require.Equal(t, ListOf(a, b, c).Identity(), published.Identity())
	kept := published.Keep(nil, func(w *Worker) bool { return w != b })
	require.Equal(t, ListOf(a, c).Identity(), kept.Identity())
	require.True(t, r.Remove(b))
	require.Equal(t, kept.Identity(), r.Pool("", Regular, HTTP).Identity(), "what is left is the same list, however it came about")
}

// DESIGN 3, lists
func TestCountsOfAKeptListAreItsOwn(t *testing.T) {
	a, b, c := made(t, NewSpec("http://a:1")), made(t, NewSpec("http://b:1")), made(t, NewSpec("http://c:1"))
	published := NewRegistry(a, b, c).Pool("", Regular, HTTP)
	require.Zero(t, published.NotReady()+published.Tripped()+published.Overloaded())
	a.SetStatus(NotReady)
	b.SetOverloaded(true)
	for range 10 {
		c.Breaker().Failure()
	}
	counts := func(l List) []int { return []int{l.NotReady(), l.Tripped(), l.Overloaded()} }
	require.Equal(t, []int{1, 1, 1}, counts(published))
	kept := published.Keep(nil, (*Worker).Ready)
	require.Equal(t, []int{0, 1, 1}, counts(kept))
	require.Equal(t, 2, kept.Len())
	require.True(t, kept.Contains(c))
	require.False(t, kept.Contains(a))
	require.True(t, kept.Any((*Worker).Overloaded))
	require.False(t, kept.Any((*Worker).Draining))
	require.False(t, kept.Any((*Worker).Available))
}

// A list's members end where the list ends, although later lists share their array.
func TestAppendingToMembersSpoilsNothing(t *testing.T) {
	r := NewRegistry(made(t, NewSpec("http://a:1")), made(t, NewSpec("http://b:1")), made(t, NewSpec("http://c:1")))
	early := r.Pool("", Regular, HTTP)
	d := made(t, NewSpec("http://d:1"))
	require.NoError(t, r.Add(d))
	_ = append(early.Members(), made(t, NewSpec("http://x:1")))
	require.Equal(t, d, r.Pool("", Regular, HTTP).At(3))
}

// BenchmarkPool is what a request does with a healthy fleet: find the pool and see that nobody has to be left out.
func BenchmarkPool(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d-workers", n), func(b *testing.B) {
			r := NewRegistry()
			for i := range n {
				add(b, r, serving(fmt.Sprintf("http://w%d:1", i), "m"))
			}
			b.ReportAllocs()
			for b.Loop() {
				model, _ := r.Resolve("m")
				if l := r.Pool(model, Regular, HTTP); l.NotReady()+l.Tripped()+l.Overloaded() != 0 || l.Len() != n {
					b.Fatal("not a healthy fleet")
				}
			}
		})
	}
}

// BenchmarkWave is 10,000 workers of one model that register one after the other: one operation is the whole wave.
func BenchmarkWave(b *testing.B) {
	const n = 10_000
	for _, aliases := range []int{0, 1} {
		ws := make([]*Worker, n)
		for i := range ws {
			s := serving(fmt.Sprintf("http://w%d:1", i), "m")
			s.Models[0].Aliases = []string{"alias"}[:aliases]
			ws[i] = made(b, s)
		}
		b.Run(fmt.Sprintf("%d-aliases", aliases), func(b *testing.B) {
			for b.Loop() {
				r := NewRegistry()
				for _, w := range ws {
					if err := r.Add(w); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// The place on a list is that of a look at every member: also where workers have left, of kept lists, and of strangers.
func TestIndexIsThePlaceOnTheList(t *testing.T) {
	var all []*Worker
	r := NewRegistry()
	for i := range 300 {
		all = append(all, made(t, NewSpec(fmt.Sprintf("http://w%d:1", i))))
		require.NoError(t, r.Add(all[i]))
	}
	stranger := made(t, NewSpec("http://x:1"))
	agree := func(l List) {
		for _, w := range append(all, stranger) {
			require.Equal(t, slices.Index(l.Members(), w), l.Index(w))
			require.Equal(t, slices.Contains(l.Members(), w), l.Contains(w))
		}
	}
	agree(r.Pool("", Regular, HTTP))
	for i := 0; i < 250; i += 3 {
		require.True(t, r.Remove(all[i]))
	}
	agree(r.Pool("", Regular, HTTP))
	for _, step := range []int{2, 50, 1000} {
		i := 0
		agree(r.Pool("", Regular, HTTP).Keep(nil, func(*Worker) bool { i++; return i%step == 0 }))
	}
	agree(List{})
	agree(ListOf(all[2], all[1], stranger, all[7]))
}
