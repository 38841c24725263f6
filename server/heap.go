package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapFloor is how many bytes of garbage may pile up before they are collected, however little is alive. A gateway keeps a few
// megabytes alive and allocates hundreds a second: by the runtime's default rule, which lets as much garbage pile up as is
// alive, it would collect dozens of times a second.
const heapFloor = 16 << 20

// keepHeapFloor makes the collector wait until there are heapFloor bytes of garbage, or as many as are alive, whichever is more.
// It looks again after every collection, until stop is called.
func keepHeapFloor() (stop func()) {
	var mu sync.Mutex // else a look could come behind the stop
	over := false
	before := debug.SetGCPercent(100)
	var look func(*sentinel)
	look = func(*sentinel) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		debug.SetGCPercent(percentFor(liveHeap()))
		runtime.SetFinalizer(&sentinel{}, look) // dies in the next collection, and is found out
	}
	runtime.SetFinalizer(&sentinel{}, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		debug.SetGCPercent(before)
	}
}

// sentinel is an object that nobody holds.
type sentinel struct{ _ [16]byte }

// percentFor is the GOGC that gives the floor when so many bytes are alive.
func percentFor(live uint64) int {
	if live == 0 {
		live = 1 << 20
	}
	return int(max(100, 100*heapFloor/live))
}

// liveHeap is what the last collection found alive, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
