package workers

import (
	"sync"
	"sync/atomic"
)

// activeKeys counts requests in flight by their routing key. A key that has none is not kept.
type activeKeys struct {
	distinct atomic.Int64 // how many keys there are; read without the lock

	mu     sync.Mutex
	counts map[string]int
}

func (k *activeKeys) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counts == nil {
		k.counts = map[string]int{}
	}
	k.counts[key]++
	k.distinct.Store(int64(len(k.counts)))
}

func (k *activeKeys) drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := k.counts[key]; {
	case n > 1:
		k.counts[key] = n - 1
	case n == 1:
		delete(k.counts, key)
		k.distinct.Store(int64(len(k.counts)))
	}
}

func (k *activeKeys) count(key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts[key]
}
