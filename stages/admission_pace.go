package stages

import (
	"math"
	"sync"
	"time"
)

// pace knows how many permits were given back lately. It is told so only when somebody has to wait: while there are permits, nobody
// asks, and nothing is measured.
type pace struct {
	mu      sync.Mutex
	samples [paceSamples]paceSample // a ring
	next    int
}

type paceSample struct {
	at       time.Time
	released uint64 // in all, until then
}

const (
	paceWindow  = 10 * time.Second // how far it looks back
	paceEvery   = time.Second      // between two samples
	paceSamples = int(paceWindow/paceEvery) + 1

	paceUnknown  = 2 * time.Second // what clients are told as long as nothing is known
	paceSoonest  = time.Second
	paceLongest  = time.Minute
	paceLongIdle = paceWindow - paceEvery // without a release: longer than a moment's chance
)

// note keeps the number of permits that were given back until now, if there is no such note of the last second.
func (p *pace) note(now time.Time, released func() uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := p.samples[(p.next+paceSamples-1)%paceSamples]
	if now.Sub(newest.at) < paceEvery {
		return
	}
	p.samples[p.next] = paceSample{now, released()}
	p.next = (p.next + 1) % paceSamples
}

// estimate is how long it takes until so many waiting requests have got their permits.
func (p *pace) estimate(now time.Time, waiting int, released uint64) time.Duration {
	oldest, known := p.oldest(now)
	span := now.Sub(oldest.at)
	switch {
	case !known || span < paceEvery:
		return paceUnknown
	case released > oldest.released:
		perSecond := float64(released-oldest.released) / span.Seconds()
		seconds := math.Ceil(float64(waiting) / perSecond)
		return time.Duration(min(max(seconds, paceSoonest.Seconds()), paceLongest.Seconds())) * time.Second
	case span >= paceLongIdle:
		return paceLongest
	}
	return paceUnknown
}

// oldest is the oldest sample that is not too old.
func (p *pace) oldest(now time.Time) (s paceSample, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.samples {
		s = p.samples[(p.next+i)%paceSamples]
		if !s.at.IsZero() && now.Sub(s.at) <= paceWindow {
			return s, true
		}
	}
	return s, false
}
