package workers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func urls(l List) []string {
	var all []string
	for _, w := range l.All() {
		all = append(all, w.URL())
	}
	return all
}

func add(t testing.TB, r *Registry, s Spec) *Worker {
	t.Helper()
	w := made(t, s)
	require.NoError(t, r.Add(w))
	return w
}

// workers.md section 10
func TestPoolOfAModel(t *testing.T) {
	r := NewRegistry()
	add(t, r, serving("http://a:1", "m"))
	add(t, r, serving("http://b:1", "n"))
	add(t, r, serving("http://c:1", "m"))
	add(t, r, serving("http://any:1", ""))
	prefill := serving("http://p:1", "p")
	prefill.WorkerType = Prefill
	add(t, r, prefill)
	tests := []struct {
		name, model string
		typ         Type
		want        []string
	}{
		{"the workers of the model, in the order of registration", "m", Regular, []string{"http://a:1", "http://c:1"}},
		{"a model that nobody names goes to those that take all", "x", Regular, []string{"http://any:1"}},
		{"no model goes to everybody of the type", "", Regular, []string{"http://a:1", "http://b:1", "http://c:1", "http://any:1"}},
		{"no model goes to nobody of another type", "", Prefill, []string{"http://p:1"}},
		{"a model of another type is served by nobody, not by those that take all", "p", Regular, nil},
		{"a type without workers", "m", Decode, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, urls(r.Pool(tt.model, tt.typ, HTTP))) })
	}
	require.Empty(t, urls(r.Pool("m", Regular, GRPC)))
	require.Equal(t, []string{"m", "n", "p"}, r.Models())
	require.Equal(t, 4, r.ModelCount(), "those that take all count as one")
	require.Equal(t, 5, r.Len())
}

// DECISIONS 42: the order of GET /workers is that of the pools
func TestOrderIsThatOfRegistration(t *testing.T) {
	r := NewRegistry()
	late, early := made(t, NewSpec("http://a:1")), made(t, NewSpec("http://b:1"))
	require.NoError(t, r.Add(early))
	require.NoError(t, r.Add(late)) // has the smaller id, and the smaller URL
	require.Equal(t, []*Worker{early, late}, r.All())
	require.Equal(t, r.All(), r.Pool("", Regular, HTTP).Members())
}

// workers.md section 1
func TestLookUps(t *testing.T) {
	r := NewRegistry()
	g := made(t, NewSpec("grpc://10.0.0.7:50051"))
	s := made(t, NewSpec("https://10.0.0.8"))
	ranks := []*Worker{made(t, NewSpec("http://10.0.0.9:1@0")), made(t, NewSpec("http://10.0.0.9:1@1"))}
	for _, w := range append(ranks, g, s) {
		require.NoError(t, r.Add(w))
	}
	require.Equal(t, g, r.ByURL("10.0.0.7:50051"))
	require.Nil(t, r.ByURL("http://10.0.0.7:50051"), "a scheme never matches another")
	require.Equal(t, s, r.ByURL("10.0.0.8"))
	require.Equal(t, s, r.ByURL("https://10.0.0.8/"))
	require.Equal(t, ranks, r.ByAddress("10.0.0.9:1"))
	require.Equal(t, g, r.ByID(g.ID()))
	id, err := ParseID(g.ID().String())
	require.NoError(t, err)
	require.Equal(t, g.ID(), id)

	require.True(t, r.Remove(ranks[0]))
	require.False(t, r.Remove(ranks[0]), "it is gone already")
	require.Equal(t, ranks[1:], r.ByAddress("10.0.0.9:1"))
	require.True(t, r.Remove(ranks[1]))
	require.Empty(t, r.ByAddress("10.0.0.9:1"))
	require.Nil(t, r.ByID(ranks[1].ID()))
}

// workers.md section 3
func TestAliases(t *testing.T) {
	r := NewRegistry()
	known := func(name string) string {
		if canonical, ok := r.Resolve(name); ok {
			return canonical
		}
		return "?"
	}
	aliased := func(url, model string, aliases ...string) *Worker {
		s := serving(url, model)
		s.Models[0].Aliases = aliases
		return add(t, r, s)
	}
	require.Equal(t, "?", known("a"))
	first := aliased("http://1:1", "m", "a", "unknown")
	aliased("http://2:1", "n", "a")
	aliased("http://3:1", "n", "a", "b")
	require.Equal(t, "m", known("a"), "the first that claims a name keeps it")
	require.Equal(t, "n", known("b"))
	require.Equal(t, "?", known("unknown"), "stands for requests that name no model")
	require.Equal(t, "m", known("m"))

	r.Remove(first)
	require.Equal(t, "n", known("a"), "it passes to the next that claims it")
	require.Equal(t, "?", known("m"))
	model := add(t, r, serving("http://4:1", "a"))
	require.Equal(t, "a", known("a"), "the name of a model is no alias")
	r.Remove(model)
	require.Equal(t, "n", known("a"))

	r.Alias("c", "n")
	r.Alias("b", "m")
	require.Equal(t, "n", known("c"))
	require.Equal(t, "n", known("b"), "a worker's own claim comes before the configured one")
	r.Alias("later", "l")
	require.Equal(t, "?", known("later"))
	add(t, r, serving("http://5:1", "l"))
	require.Equal(t, "l", known("later"))

	last := aliased("http://6:1", "l", "mine")
	require.Equal(t, "l", known("mine"))
	r.Remove(last)
	require.Equal(t, "?", known("mine"), "a claim goes with the worker that made it, though its model stays")
}

// workers.md section 10
func TestOneURLIsRegisteredOnce(t *testing.T) {
	r := NewRegistry()
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		w := made(t, NewSpec("http://w:1"))
		all.Go(func() {
			err := r.Add(w)
			if err == nil {
				won.Add(1)
				return
			}
			if e, ok := err.(*ExistsError); ok && e.Holder.URL() == "http://w:1" { //nolint:errorlint // the documented type
				lost.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 99, lost.Load())
	require.Equal(t, 1, r.Len())
	id := r.All()[0].ID().String()
	require.EqualError(t, r.Add(made(t, NewSpec("http://w:1/"))), "Worker already exists at URL 'http://w:1' with ID "+id+
		". Use PUT /workers/"+id+" to replace or PATCH /workers/"+id+" to update.")
}

// workers.md section 10: a list that a request has loaded does not change under it
func TestReadersSeeWholeLists(t *testing.T) {
	r := NewRegistry(made(t, serving("http://stays:1", "m")))
	done := make(chan struct{})
	var readers sync.WaitGroup
	var wrong atomic.Int64
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				l := r.Pool("m", Regular, HTTP)
				if l.Len() < 1 || l.Len() > 2 || l.At(0).URL() != "http://stays:1" || l.Identity() != ListOf(l.Members()...).Identity() {
					wrong.Add(1)
				}
			}
		})
	}
	for range 1000 {
		r.Remove(add(t, r, serving("http://comes:1", "m")))
	}
	close(done)
	readers.Wait()
	require.Zero(t, wrong.Load())
}

// DESIGN 3, lists: the counts of every pool equal a recount, whatever has happened to its workers and at whatever moment.
func TestCountsEqualARecount(t *testing.T) {
	r := NewRegistry()
	var ws []*Worker
	for i := range 24 {
		s := serving(fmt.Sprintf("http://w%d:1", i), []string{"m", "n", ""}[i%3])
		s.Resilience = &ResilienceSpec{CBFailureThreshold: new(uint32(2))}
		ws = append(ws, made(t, s))
	}
	for round := range 100 {
		var all sync.WaitGroup
		for i := range round%8 + 1 { // some rounds are one goroutine alone, so that nothing hides behind luck
			all.Go(func() { disturb(r, ws, rand.New(rand.NewPCG(uint64(round), uint64(i)))) })
		}
		all.Wait()
		for _, model := range []string{"", "m", "n", "other"} {
			l := r.Pool(model, Regular, HTTP)
			plain := ListOf(l.Members()...)
			require.Equal(t, plain.NotReady(), l.NotReady(), model)
			require.Equal(t, plain.Tripped(), l.Tripped(), model)
			require.Equal(t, plain.Overloaded(), l.Overloaded(), model)
			require.Equal(t, plain.Identity(), l.Identity(), model)
		}
	}
}

// disturb does to workers whatever can be done to them.
func disturb(r *Registry, ws []*Worker, random *rand.Rand) {
	for range 200 {
		w := ws[random.IntN(len(ws))]
		switch random.IntN(8) {
		case 0:
			_ = r.Add(w) // may be there already
		case 1:
			r.Remove(w)
		case 2, 3:
			w.SetStatus(Status(random.IntN(int(Draining))))
		case 4:
			w.SetOverloaded(random.IntN(2) == 0)
		case 5:
			w.Breaker().Reset()
		default:
			w.Breaker().Failure()
		}
	}
}

// diary notes what a listener hears.
type diary struct{ lines []string }

func (d *diary) WorkerAdded(w *Worker) {
	d.lines = append(d.lines, "added "+w.URL()+" "+w.Status().String())
}
func (d *diary) WorkerReplaced(_, now *Worker) { d.lines = append(d.lines, "replaced "+now.URL()) }
func (d *diary) WorkerRemoved(w *Worker)       { d.lines = append(d.lines, "removed "+w.URL()) }
func (d *diary) WorkerStatus(w *Worker, from, to Status) {
	d.lines = append(d.lines, fmt.Sprintf("%s %s>%s", w.URL(), from, to))
}

// workers.md section 10: registered -> status changed* -> removed
func TestListenersHearEverythingInOrder(t *testing.T) {
	r := NewRegistry(made(t, NewSpec("http://old:1")))
	var listens, follows diary
	stop := r.Listen(&listens)
	r.Follow(&follows)
	w, err := New(NewSpec("http://w:1"), DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(NotReady) // before its registration nobody hears of it
	require.NoError(t, r.Add(w))
	w.SetStatus(Ready)
	w.SetStatus(Ready)
	w.SetStatus(Draining)
	w.SetStatus(Ready) // never leaves draining
	stop()
	r.Remove(w)
	w.SetStatus(Failed)
	want := []string{"added http://w:1 not_ready", "http://w:1 not_ready>ready", "http://w:1 ready>draining"}
	require.Equal(t, want, listens.lines)
	require.Equal(t, append(append([]string{"added http://old:1 ready"}, want...), "removed http://w:1"), follows.lines)
	require.Equal(t, Draining, w.Status())
}

// workers.md section 10: a worker outlives its registration
func TestARequestMayEndAfterTheRemoval(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, NewSpec("http://w:1"))
	w.Begin()
	r.Remove(w)
	w.Breaker().Failure()
	w.SetOverloaded(true)
	w.End()
	require.EqualValues(t, 0, w.InFlight())
	require.EqualValues(t, 1, w.Sent())
	require.Zero(t, r.Len())
	require.Zero(t, r.Pool("", Regular, HTTP).Len())
}
