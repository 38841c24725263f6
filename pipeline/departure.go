package pipeline

import (
	"slices"
	"sync"
)

// Departure is what an implementation of [Client] keeps of who wants to know that the client has left. Its zero value is a
// client that is there.
type Departure struct {
	mu       sync.Mutex
	gone     bool
	watchers []GoneWatcher
}

// Happen notes that the client has left and tells everybody who watches. The lock is held meanwhile: when Unwatch returns,
// nobody is being told any more.
func (d *Departure) Happen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	for _, w := range d.watchers {
		w.ClientGone()
	}
	d.watchers = nil
}

// Gone is [Client.Gone].
func (d *Departure) Gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

// Watch is [Client.Watch].
func (d *Departure) Watch(w GoneWatcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		w.ClientGone()
		return
	}
	d.watchers = append(d.watchers, w)
}

// Unwatch is [Client.Unwatch].
func (d *Departure) Unwatch(w GoneWatcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.watchers, w); i >= 0 {
		d.watchers = slices.Delete(d.watchers, i, i+1)
	}
}

// Watching is how many still wait.
func (d *Departure) Watching() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watchers)
}
