package workers

import (
	"context"
	"sync"
	"time"
)

const (
	pulsePeriod = 250 * time.Millisecond // between two beats
	pulseGrace  = 250 * time.Millisecond // a beat that comes so much late is usual on a busy machine
)

// pulse notices when this process does not run as it should: because it was suspended, or because its machine has no time for it. It
// beats often; a beat that comes late tells for how long nothing went on here. What an engine seemed to have missed in that time says
// nothing of the engine.
type pulse struct {
	wait func(ctx context.Context, d time.Duration) error // replaced in tests

	mu    sync.Mutex
	last  time.Time // the last beat; zero while it does not beat
	stall stall     // the last that has ended
}

// stall is a time in which nothing went on.
type stall struct{ from, to time.Time }

func newPulse() *pulse { return &pulse{wait: pause} }

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	p.begin(time.Now())
	for p.wait(ctx, pulsePeriod) == nil {
		p.beat(time.Now())
	}
	p.begin(time.Time{})
}

func (p *pulse) begin(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.stall = at, stall{}
}

func (p *pulse) beat(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late(p.last, at) {
		p.stall = stall{p.last, at}
	}
	p.last = at
}

// stalled tells whether the process did not run at some time since a moment, up to now. The beat that would tell may not have come
// yet: then its being late does.
func (p *pulse) stalled(since, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stall.to.After(since) || !p.last.IsZero() && late(p.last, now)
}

func late(last, now time.Time) bool { return now.Sub(last) > pulsePeriod+pulseGrace }
