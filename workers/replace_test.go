package workers

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// revisionOf is the next revision of a worker, with its spec changed.
func revisionOf(t testing.TB, was *Worker, change func(*Spec)) *Worker {
	t.Helper()
	spec := was.spec.Clone()
	if change != nil {
		change(&spec)
	}
	now, err := newWorker(NewID(), spec, DefaultSettings())
	require.NoError(t, err)
	now.succeed(was)
	return now
}

func replaced(t testing.TB, r *Registry, was *Worker, change func(*Spec)) *Worker {
	t.Helper()
	now := revisionOf(t, was, change)
	require.True(t, r.Replace(was, now))
	return now
}

// workers.md section 10
func TestReplacementKeepsWhatIsCounted(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, serving("http://w:1", "m"))
	w.Begin()
	w.BeginKey("k")
	w.SetStatus(NotReady)
	w.SetOverloaded(true)
	w.SetReport(&Report{})
	w.Breaker().Failure()
	now := replaced(t, r, w, func(s *Spec) { s.Priority = 7 })

	require.Equal(t, w.ID(), now.ID())
	require.EqualValues(t, 1, now.Revision())
	require.EqualValues(t, 7, now.Spec().Priority)
	require.Equal(t, NotReady, now.Status())
	require.EqualValues(t, 1, now.InFlight())
	require.EqualValues(t, 1, now.Sent())
	require.Equal(t, 1, now.KeyInFlight("k"))
	require.EqualValues(t, 1, now.Breaker().ConsecutiveFailures())
	require.Equal(t, w.Slot(), now.Slot())
	require.False(t, now.Overloaded(), "the verdict is cleared")
	require.Nil(t, now.Report())
	w.End() // of a request that began before
	w.EndKey("k")
	require.Zero(t, now.InFlight())
	require.Zero(t, now.ActiveKeys())

	require.Same(t, now, r.ByID(w.ID()))
	require.Same(t, now, r.ByURL("http://w:1"))
	require.Equal(t, []*Worker{now}, r.ByAddress("w:1"))
	require.Equal(t, []*Worker{now}, r.Pool("m", Regular, HTTP).Members())
	require.Equal(t, 1, r.Len())
	require.Equal(t, 0, r.Pool("m", Regular, HTTP).Overloaded())
	require.Equal(t, 1, r.Pool("m", Regular, HTTP).NotReady())
}

// workers.md sections 9 and 10
func TestReplacementKeepsABreakerThatIsSetAlike(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, serving("http://w:1", "m"))
	same := replaced(t, r, w, func(s *Spec) { s.Labels = map[string]string{"a": "1"} })
	require.Same(t, w.Breaker(), same.Breaker())
	for range 10 {
		w.Breaker().Failure() // of a request that began before the replacement
	}
	require.Equal(t, BreakerOpen, same.Breaker().State())
	require.Equal(t, 1, r.Pool("m", Regular, HTTP).Tripped(), "the new revision is counted")

	var heard []BreakerState
	same.OnBreaker(func(_ *Worker, _, to BreakerState) { heard = append(heard, to) })
	other := replaced(t, r, same, func(s *Spec) { s.Resilience = &ResilienceSpec{CBFailureThreshold: new(uint32(3))} })
	require.NotSame(t, w.Breaker(), other.Breaker())
	require.Equal(t, BreakerClosed, other.Breaker().State())
	require.Equal(t, 0, r.Pool("m", Regular, HTTP).Tripped())
	for range 3 {
		other.Breaker().Failure()
	}
	require.Equal(t, []BreakerState{BreakerOpen}, heard, "who hears of the breaker hears of the new one")
}

// workers.md section 10: index a is empty, b and c hold the new one. A worker of one's own serves the model of its first card.
func TestReplacementMovesToAnotherModel(t *testing.T) {
	r := NewRegistry()
	aliased := serving("http://w:1", "a")
	aliased.Models[0].Aliases = []string{"old"}
	w := add(t, r, aliased)
	last := add(t, r, serving("http://x:1", "b"))
	now := replaced(t, r, w, func(s *Spec) { s.Models = []Card{{ID: "b", Aliases: []string{"new"}}} })
	require.Equal(t, []string{"b"}, r.Models())
	require.Equal(t, []*Worker{now, last}, r.Pool("b", Regular, HTTP).Members(), "at the place of its registration")
	require.Zero(t, r.Pool("a", Regular, HTTP).Len())
	require.Equal(t, []*Worker{now, last}, r.Pool("", Regular, HTTP).Members())
	_, known := r.Resolve("old")
	require.False(t, known)
	canonical, _ := r.Resolve("new")
	require.Equal(t, "b", canonical)
	replaced(t, r, now, func(s *Spec) { s.WorkerType = Prefill })
	require.Equal(t, []string{"http://x:1"}, urls(r.Pool("b", Regular, HTTP)))
	require.Equal(t, []string{"http://w:1"}, urls(r.Pool("b", Prefill, HTTP)))
}

// workers.md section 10
func TestWhatIsPinnedToAnOldRevisionChangesNothing(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, serving("http://w:1", "m"))
	late := revisionOf(t, w, nil)
	now := replaced(t, r, w, nil)
	var heard diary
	r.Listen(&heard)
	require.False(t, r.Remove(w))
	require.False(t, r.Replace(w, late))
	require.False(t, r.Replace(now, late), "not its next revision")
	require.False(t, r.Replace(now, made(t, serving("http://w:1", "m"))), "another registration")
	w.SetStatus(NotReady)
	require.Equal(t, Ready, now.Status())
	require.Zero(t, r.Pool("m", Regular, HTTP).NotReady())
	require.Empty(t, heard.lines)
	require.Same(t, now, r.ByID(w.ID()))
}

// workers.md section 17: the replacement stays ready
func TestReplacementOfADrainingWorkerIsReady(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, serving("http://w:1", "m"))
	w.SetStatus(Draining)
	require.Equal(t, Ready, replaced(t, r, w, nil).Status())
	require.Zero(t, r.Pool("m", Regular, HTTP).NotReady())
}

// workers.md section 10: listeners hear of it before requests do, so no policy is asked for a worker that it does not know
func TestListenersHearOfAReplacementBeforeItIsSeen(t *testing.T) {
	r := NewRegistry()
	w := add(t, r, serving("http://w:1", "m"))
	l := &peeker{r: r}
	r.Listen(l)
	now := replaced(t, r, w, nil)
	require.Equal(t, []*Worker{w}, l.saw)
	require.Equal(t, []*Worker{now}, r.Pool("m", Regular, HTTP).Members())
}

type peeker struct {
	Deaf
	r   *Registry
	saw []*Worker
}

func (p *peeker) WorkerReplaced(_, _ *Worker) { p.saw = p.r.Pool("m", Regular, HTTP).Members() }

// workers.md section 10: a reader never sees the URL twice, or not at all
func TestReadersSeeOneRevision(t *testing.T) {
	r := NewRegistry(made(t, serving("http://other:1", "m")))
	w := add(t, r, serving("http://w:1", "m"))
	identity := r.Pool("m", Regular, HTTP).Identity()
	done := make(chan struct{})
	var readers sync.WaitGroup
	var wrong, reads atomic.Int64
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				l := r.Pool("m", Regular, HTTP)
				found := 0
				for _, m := range l.All() {
					if m.URL() == "http://w:1" {
						found++
					}
				}
				if found != 1 || l.Identity() != identity || l.Index(l.At(1)) != 1 {
					wrong.Add(1)
				}
				reads.Add(1)
			}
		})
	}
	for i := range 1000 {
		w = replaced(t, r, w, func(s *Spec) { s.Priority = uint32(i) })
	}
	close(done)
	readers.Wait()
	require.Zero(t, wrong.Load())
	require.Positive(t, reads.Load())
	require.EqualValues(t, 1000, w.Revision())
	require.Equal(t, 1, r.Pool("m", Regular, HTTP).Index(w))
}

// A request that has chosen an older revision is about the same worker.
func TestListsKnowARegistrationByAnyRevision(t *testing.T) {
	r := NewRegistry(made(t, serving("http://other:1", "m")))
	w := add(t, r, serving("http://w:1", "m"))
	old := r.Pool("m", Regular, HTTP)
	now := replaced(t, r, w, nil)
	require.Equal(t, 1, r.Pool("m", Regular, HTTP).Index(w))
	require.Equal(t, 1, old.Index(now))
	require.True(t, ListOf(now).Contains(w))
	require.False(t, ListOf(now).Contains(old.At(0)))
}

// The counts of the pools stay right whatever changes while workers are replaced.
func TestCountsEqualARecountAfterReplacements(t *testing.T) {
	r := NewRegistry()
	var current [8]atomic.Pointer[Worker]
	for i := range current {
		s := serving("http://w"+string(rune('a'+i))+":1", "m")
		s.Resilience = &ResilienceSpec{CBFailureThreshold: new(uint32(1)), CBTimeoutSecs: new(uint32(3600))}
		current[i].Store(add(t, r, s))
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				w := current[(i*7+g)%8].Load()
				switch (i + g) % 4 {
				case 0:
					w.SetStatus(Status(i % int(Draining)))
				case 1:
					w.Breaker().Failure()
				case 2:
					w.Breaker().Reset()
				default:
					w.SetOverloaded(i%3 == 0)
				}
			}
		})
	}
	for i := range 500 {
		was := current[i%8].Load()
		now := revisionOf(t, was, nil)
		if r.Replace(was, now) {
			current[i%8].Store(now)
		}
	}
	all.Wait()
	l := r.Pool("m", Regular, HTTP)
	plain := ListOf(l.Members()...)
	require.Equal(t, 8, l.Len())
	require.Equal(t, plain.NotReady(), l.NotReady())
	require.Equal(t, plain.Tripped(), l.Tripped())
	require.Equal(t, plain.Overloaded(), l.Overloaded())
}

// http-dataplane.md section 10, per-model override: of the workers that are registered, the last that sets anything wins
func TestRetriesOfAModel(t *testing.T) {
	says := func(attempts uint32) *ResilienceSpec {
		if attempts == 0 {
			return &ResilienceSpec{CBTimeoutSecs: new(uint32(1))} // nothing of retries
		}
		return &ResilienceSpec{MaxRetries: &attempts}
	}
	type step struct {
		what     string // add, set (PUT), touch (PATCH of something else), move (to model n) or remove
		worker   string
		attempts uint32 // that it says, 0 is nothing
		want     uint32 // what holds for m then
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a worker that says nothing", []step{{"add", "a", 0, 0}}},
		{"the last that says anything", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"add", "c", 0, 3}}},
		{"a change of something else is no new word", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"touch", "a", 2, 3}, {"touch", "b", 3, 3}}},
		{"a replacement is the last registration", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"set", "a", 7, 7}}},
		{"who takes it back leaves it to the one before", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"set", "b", 0, 2}, {"set", "a", 0, 0}}},
		{"one who was not the last takes it back", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"set", "a", 0, 3}, {"set", "b", 0, 0}}},
		{"who said more than once takes all of it back", []step{{"add", "a", 2, 2}, {"set", "a", 5, 5}, {"set", "a", 0, 0}}},
		{"who leaves leaves it to the one before", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"remove", "b", 0, 2}}},
		{"the last word stays while the model has workers", []step{{"add", "a", 0, 0}, {"add", "b", 3, 3}, {"remove", "b", 0, 3}, {"touch", "a", 0, 3}, {"remove", "a", 0, 0}}},
		{"and until there is a new one", []step{{"add", "a", 0, 0}, {"add", "b", 3, 3}, {"remove", "b", 0, 3}, {"set", "a", 4, 4}, {"set", "a", 0, 0}}},
		{"who comes again begins anew", []step{{"add", "a", 3, 3}, {"remove", "a", 0, 0}, {"add", "a", 0, 0}}},
		{"who moves to another model has left", []step{{"add", "a", 2, 2}, {"add", "b", 3, 3}, {"move", "b", 3, 2}, {"move", "a", 2, 0}}},
	}
	for _, tt := range tests {
		for _, model := range []string{"m", ""} {
			t.Run(tt.name+" of model '"+model+"'", func(t *testing.T) {
				r := NewRegistry()
				attempts := func(model string) uint32 {
					if own := r.Retries(model); own != nil {
						return *own.MaxRetries
					}
					return 0
				}
				for i, s := range tt.steps {
					url := "http://" + s.worker + ":1"
					switch s.what {
					case "add":
						spec := serving(url, model)
						spec.Resilience = says(s.attempts)
						add(t, r, spec)
					case "set":
						replaced(t, r, r.ByURL(url), func(spec *Spec) { spec.Resilience = says(s.attempts) })
					case "touch":
						replaced(t, r, r.ByURL(url), func(spec *Spec) { spec.Priority++ })
					case "move":
						replaced(t, r, r.ByURL(url), func(spec *Spec) { spec.Models = []Card{{ID: "n"}} })
						require.Equal(t, s.attempts, attempts("n"), "step %d: it says the same of its new model", i)
					case "remove":
						require.True(t, r.Remove(r.ByURL(url)))
					}
					require.Equal(t, s.want, attempts(model), "step %d: %s %s", i, s.what, s.worker)
					require.Equal(t, s.want > 1 || attempts("n") > 1, r.Retried())
				}
				for _, w := range r.All() {
					r.Remove(w)
				}
				require.Empty(t, r.rules, "nothing is kept of models that have gone")
				require.Empty(t, r.published.Load().retries)
			})
		}
	}
}

func BenchmarkRegister1000(b *testing.B) {
	for b.Loop() {
		r := NewRegistry()
		for i := range 1000 {
			_ = r.Add(made(b, serving("http://10.0."+time.Duration(i).String()+":1", "m")))
		}
	}
}
