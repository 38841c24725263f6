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

// http-dataplane.md section 10, per-model override
func TestRetriesOfAModel(t *testing.T) {
	r := NewRegistry()
	with := func(url, model string, attempts uint32) *Worker {
		s := serving(url, model)
		s.Resilience = &ResilienceSpec{MaxRetries: &attempts}
		return add(t, r, s)
	}
	attempts := func(model string) uint32 {
		if own := r.Retries(model); own != nil {
			return *own.MaxRetries
		}
		return 0
	}
	plain := serving("http://plain:1", "m")
	plain.Resilience = &ResilienceSpec{CBTimeoutSecs: new(uint32(1))}
	p := add(t, r, plain)
	require.Zero(t, attempts("m"), "it says nothing of retries")
	a, b := with("http://a:1", "m", 2), with("http://b:1", "m", 3)
	require.EqualValues(t, 3, attempts("m"), "the last that says anything wins")
	a = replaced(t, r, a, func(s *Spec) { s.Priority = 1 })
	require.EqualValues(t, 3, attempts("m"), "a change of something else is no new word")
	a = replaced(t, r, a, func(s *Spec) { s.Resilience = &ResilienceSpec{MaxRetries: new(uint32(7))} })
	require.EqualValues(t, 7, attempts("m"))
	require.Zero(t, attempts("n"))
	a = replaced(t, r, a, func(s *Spec) { s.Resilience = nil })
	require.Zero(t, attempts("m"), "who has set it takes it back")
	replaced(t, r, b, func(s *Spec) { s.Resilience = &ResilienceSpec{MaxRetries: new(uint32(4))} })
	r.Remove(r.ByURL("http://b:1"))
	r.Remove(a)
	require.EqualValues(t, 4, attempts("m"), "it stays while the model has workers")
	r.Remove(p)
	require.Zero(t, attempts("m"), "and goes with the last")
	any1 := with("http://any:1", "", 9)
	require.EqualValues(t, 9, attempts(""))
	r.Remove(any1)
	require.Zero(t, attempts(""))
}

func BenchmarkRegister1000(b *testing.B) {
	for b.Loop() {
		r := NewRegistry()
		for i := range 1000 {
			_ = r.Add(made(b, serving("http://10.0."+time.Duration(i).String()+":1", "m")))
		}
	}
}
