package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

// sweepPause is the least time between two sweeps, so that connections which expire one after another share some.
const sweepPause = 50 * time.Millisecond

// sweeper runs a function by one timer, which is armed only while there is something to wait for.
type sweeper struct {
	sweep func() time.Duration // returns when to come again, 0 for not at all
	due   atomic.Int64         // when the timer goes off, on the clock of now; 0 while it is not armed

	mu    sync.Mutex
	timer *time.Timer
}

// wake makes a sweep happen at the given time, unless one happens before that.
func (s *sweeper) wake(at time.Duration) {
	if due := s.due.Load(); due != 0 && due <= int64(at) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if due := s.due.Load(); due != 0 && due <= int64(at) {
		return
	}
	s.due.Store(int64(at))
	if s.timer == nil {
		s.timer = time.AfterFunc(at-now(), s.run)
		return
	}
	s.timer.Reset(at - now())
}

func (s *sweeper) run() {
	s.due.Store(0)
	if next := s.sweep(); next != 0 {
		s.wake(max(next, now()+sweepPause))
	}
}

func (s *sweeper) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.due.Store(0)
}
