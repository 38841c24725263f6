package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cowMap is a map that is read without a lock or an allocation and copied when a key is added. It is for keys that are
// few and that every request looks up: routes, models, status codes. The zero value is empty.
type cowMap[K comparable, V any] struct {
	p  atomic.Pointer[map[K]V]
	mu sync.Mutex // held while a key is added
}

func (m *cowMap[K, V]) get(k K) (v V, ok bool) {
	if p := m.p.Load(); p != nil {
		v, ok = (*p)[k]
	}
	return v, ok
}

func (m *cowMap[K, V]) len() int {
	if p := m.p.Load(); p != nil {
		return len(*p)
	}
	return 0
}

// getOrMake returns the value of k. If there is none, mk makes it, once however many ask for it at the same time; with
// ok false nothing is kept, and the value is only returned.
func (m *cowMap[K, V]) getOrMake(k K, mk func(K) (v V, ok bool)) V {
	if v, found := m.get(k); found {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, found := m.get(k); found {
		return v
	}
	v, keep := mk(k)
	if !keep {
		return v
	}
	next := make(map[K]V, m.len()+1)
	if p := m.p.Load(); p != nil {
		maps.Copy(next, *p)
	}
	next[k] = v
	m.p.Store(&next)
	return v
}
