package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// driver runs a [Model] in real time.
type driver struct {
	began time.Time

	mu    sync.Mutex
	model *Model
	timer *time.Timer // fires when the model's step ends
}

func newDriver(cfg ModelConfig) *driver {
	d := &driver{began: time.Now(), model: NewModel(cfg, nil)}
	d.timer = time.AfterFunc(time.Hour, d.tick)
	d.timer.Stop()
	return d
}

// ride is one request in the model.
type ride struct {
	job    Job
	tokens []uint32
	made   atomic.Int64
	more   chan struct{} // holds one at most: there are more tokens than before
}

// Token is called with the driver's lock held.
func (r *ride) Token(_ *Job, k int, _ time.Duration) {
	r.made.Store(int64(k) + 1)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// board puts a prompt in line. Who boards leaves.
func (d *driver) board(tokens []uint32, output int) *ride {
	r := &ride{tokens: tokens, more: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.job = Job{
		Pages:  PageDigests(nil, tokens, d.model.cfg.PageSize),
		Tokens: len(tokens), Output: output, Owner: r,
	}
	d.catchUp()
	d.model.Submit(time.Since(d.began), &r.job)
	d.wind()
	return r
}

// leave takes a ride out, if it is not over.
func (d *driver) leave(r *ride) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUp()
	d.model.Cancel(&r.job)
	d.wind()
}

// load is what the model reports now.
func (d *driver) load() (Load, Totals) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUp()
	return d.model.Load(), d.model.Totals()
}

// flush forgets what is cached and not in use.
func (d *driver) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.model.cache.flush()
}

func (d *driver) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUp()
	d.wind()
}

// catchUp tells the model the time. The lock is held.
func (d *driver) catchUp() { d.model.Advance(time.Since(d.began)) }

// wind sets the timer to the end of the step, if there is one. The lock is held.
func (d *driver) wind() {
	at, ok := d.model.Next()
	if !ok || d.model.InFlight() == 0 { // a step whose requests have all left needs no end
		d.timer.Stop()
		return
	}
	d.timer.Reset(max(0, at-time.Since(d.began)))
}
