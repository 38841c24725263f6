package stages

import (
	"math"
	"sync"
	"time"
)

// bucket gives out tokens that come back when requests end, and that time adds.
type bucket struct {
	mu        sync.Mutex
	capacity  float64
	perSecond float64
	tokens    float64 // as of filled
	filled    time.Time
	held      int
	queue     int
	line      waitingLine
	timer     *time.Timer // runs while somebody waits
}

func newBucket(s AdmissionSettings) *bucket {
	capacity := float64(s.Requests)
	return &bucket{capacity: capacity, perSecond: float64(s.PerSecond), tokens: capacity, filled: time.Now(), queue: s.Queue}
}

func (b *bucket) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take()
}

func (b *bucket) join(w *waiter) admittance {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.take() {
		return entered
	}
	if b.line.len >= b.queue {
		return refused429
	}
	b.line.push(w)
	if b.line.len == 1 {
		b.await()
	}
	return inLine
}

func (b *bucket) leave(w *waiter) (held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.line.remove(w)
}

func (b *bucket) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held--
	b.fill()
	b.tokens = min(b.capacity, b.tokens+1)
	b.serve()
}

func (b *bucket) sample() admissionSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	return admissionSample{held: b.held, waiting: b.line.len}
}

// take takes a token for somebody who has not waited.
func (b *bucket) take() bool {
	b.fill()
	if b.line.len > 0 || b.tokens < 1 {
		return false
	}
	b.tokens--
	b.held++
	return true
}

// fill adds what time has added since the last time.
func (b *bucket) fill() {
	now := time.Now()
	b.tokens = min(b.capacity, b.tokens+now.Sub(b.filled).Seconds()*b.perSecond)
	b.filled = now
}

// serve hands tokens to those who wait.
func (b *bucket) serve() {
	for b.line.len > 0 && b.tokens >= 1 {
		b.tokens--
		b.held++
		b.line.pop().grant()
	}
}

// await serves when the next token is whole, and again while somebody waits.
func (b *bucket) await() {
	missing := (1 - b.tokens) / b.perSecond * float64(time.Second)
	d := time.Duration(math.Ceil(missing)) // never early: then it would be for a fraction of nothing
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.tick)
		return
	}
	b.timer.Reset(d)
}

func (b *bucket) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	b.serve()
	if b.line.len > 0 {
		b.await()
	}
}
