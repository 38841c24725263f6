package policy

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// pinnedWorkers is how many workers a key remembers.
const pinnedWorkers = 2

// pinKey is whose pin it is. Of manual the model is always "".
type pinKey struct {
	leg   workers.Type
	model string
	key   string
}

// pin is what a key remembers: the URLs of workers, so that one that is registered again is found again, and the last use.
type pin struct {
	urls [pinnedWorkers]string // "" behind the last
	used time.Time
}

// pins remember the workers of keys. There is no bound on their number; those that are not used for long are swept away.
type pins struct {
	roster   *roster
	assign   Assignment
	chance   *Chance
	idle     time.Duration // after which a pin is swept; 0: never
	interval time.Duration // between two sweeps; 0: there are none
	clock    func() time.Time
	log      *slog.Logger
	gauge    prometheus.Gauge // nil: nobody counts

	seed    maphash.Seed
	entries atomic.Int64
	shards  [64]pinShard

	sweeping sync.Mutex
	swept    time.Time
}

// pinShard is a part of the pins. Its lock is held from the look at a pin until the choice is remembered, so that two first requests
// of a key get the same worker.
type pinShard struct {
	sync.Mutex
	pins map[pinKey]*pin
	_    [48]byte // a shard has a cache line to itself
}

// newPins makes pins. assign is the mode for an unset one.
func newPins(s *Settings, assign Assignment, log *slog.Logger) *pins {
	p := &pins{
		roster: s.roster, assign: s.Assignment, chance: s.Chance, idle: s.MaxIdle, interval: s.EvictionInterval, clock: s.Clock, log: log,
		gauge: s.counted().ManualEntries, seed: maphash.MakeSeed(),
	}
	if p.assign == AssignUnset {
		p.assign = assign
	}
	if p.clock == nil {
		p.clock = time.Now
	}
	for i := range p.shards {
		p.shards[i].pins = map[pinKey]*pin{}
	}
	if p.idle <= 0 || p.interval <= 0 {
		log.Warn("pins of routing keys are never swept, their number grows with the keys", "max_idle", p.idle, "eviction_interval", p.interval)
	}
	return p
}

func (p *pins) shard(key string) *pinShard {
	return &p.shards[maphash.String(p.seed, key)%uint64(len(p.shards))]
}

// place is the place of the first remembered worker that is on the list; -1 if none is, also for a nil pin.
func (p *pins) place(of *pin, among workers.List) int {
	if of == nil {
		return -1
	}
	for _, url := range of.urls {
		if url == "" {
			break
		}
		if i := p.roster.place(url, among); i >= 0 {
			return i
		}
	}
	return -1
}

// append remembers a worker behind the others; of too many the first is forgotten. The shard is locked.
func (p *pins) append(s *pinShard, k pinKey, url string) {
	of := p.entry(s, k)
	if of.urls[0] != "" && of.urls[1] != "" {
		of.urls[0], of.urls[1] = of.urls[1], ""
	}
	if of.urls[0] == "" {
		of.urls[0] = url
	} else if of.urls[0] != url {
		of.urls[1] = url
	}
}

// lead remembers a worker in front; the one that was there before comes second. The shard is locked.
func (p *pins) lead(s *pinShard, k pinKey, url string) {
	if of := p.entry(s, k); of.urls[0] != url {
		of.urls = [pinnedWorkers]string{url, of.urls[0]}
	}
}

// entry is the pin of a key, a new one if there is none. It counts as used.
func (p *pins) entry(s *pinShard, k pinKey) *pin {
	of := s.pins[k]
	if of == nil {
		of = &pin{}
		s.pins[k] = of
		p.entries.Add(1)
	}
	of.used = p.clock()
	return of
}

// touch notes that a pin was used.
func (p *pins) touch(x *pipeline.Exchange, of *pin) {
	if of != nil && !x.DryRun {
		of.used = p.clock()
	}
}

// show brings the gauge up to date.
func (p *pins) show(x *pipeline.Exchange) {
	if p.gauge != nil && !x.DryRun {
		p.gauge.Set(float64(p.entries.Load()))
	}
}

// sweep forgets the pins that were not used for long. One that is asked for soon after another does nothing.
func (p *pins) sweep(now time.Time) {
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	if p.idle <= 0 || p.interval <= 0 || !p.swept.IsZero() && now.Sub(p.swept) < p.interval/2 {
		return
	}
	p.swept = now
	removed := 0
	for i := range p.shards {
		removed += p.shards[i].sweep(now.Add(-p.idle))
	}
	left := p.entries.Add(-int64(removed))
	if p.gauge != nil {
		p.gauge.Set(float64(left))
	}
	if removed > 0 {
		p.log.Info("pins of idle routing keys were removed", "removed", removed, "remaining", left)
	}
}

// sweep forgets the pins that were last used at that time, or before.
func (s *pinShard) sweep(since time.Time) (removed int) {
	s.Lock()
	defer s.Unlock()
	for k, of := range s.pins {
		if !of.used.After(since) {
			delete(s.pins, k)
			removed++
		}
	}
	return removed
}
