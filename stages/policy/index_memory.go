package policy

import "sync/atomic"

// indexMemory is what all prefix indexes of a process may take and have taken, and the clock of their stamps.
type indexMemory struct {
	limit int64 // bytes; 0 is no limit

	_     [64]byte // the counters change with every request
	used  atomic.Int64
	_     [56]byte
	stamp atomic.Uint64
}

// defaultIndexMemory is the limit in bytes where none is given.
const defaultIndexMemory = 1 << 30

func newIndexMemory(limit int64) *indexMemory {
	if limit <= 0 {
		limit = defaultIndexMemory
	}
	return &indexMemory{limit: limit}
}

// take reserves bytes; false if that would be more than the limit.
func (m *indexMemory) take(bytes int64) bool {
	if m.used.Add(bytes) > m.limit {
		m.used.Add(-bytes)
		return false
	}
	return true
}

// add counts bytes that are in use already, or given back.
func (m *indexMemory) add(bytes int64) { m.used.Add(bytes) }

// full tells whether nothing more should be recorded.
func (m *indexMemory) full() bool { return m.used.Load() >= m.limit }

// tight tells whether something should go, so that there is room when it is needed.
func (m *indexMemory) tight() bool { return m.used.Load() > m.limit/100*95 }

// next is a stamp: every later one is greater.
func (m *indexMemory) next() uint64 { return m.stamp.Add(1) }
