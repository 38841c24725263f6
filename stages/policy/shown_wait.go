package policy

import "github.com/smg-go/smg/workers"

// estimating is a policy that knows how long a request would wait at a worker.
type estimating interface {
	// expected is the worker's score in seconds; ok is false while none is known.
	expected(w *workers.Worker) (seconds float64, ok bool)
}

func (p *byWait) expected(w *workers.Worker) (float64, bool)     { return p.scorer.expected(w) }
func (p *cacheAware) expected(w *workers.Worker) (float64, bool) { return p.scorer.expected(w) }

// ExpectedWait is how long a request would wait at a worker, in seconds, as the policy of its model has last computed it. ok is false
// if that does not go by load, or has no load report of the worker.
func (s *Set) ExpectedWait(w *workers.Worker) (seconds float64, ok bool) {
	if by, knows := inside(s.For(w.Model())).(estimating); knows {
		return by.expected(w)
	}
	return 0, false
}

// expected is a worker's score. It opens no account: to be looked at changes nothing.
func (s *expectedWait) expected(w *workers.Worker) (seconds float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := w.Report()
	if r == nil {
		return 0, false
	}
	if a := s.known(w, r); a != nil {
		return a.score, true
	}
	return 0, false
}
