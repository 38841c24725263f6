package pipeline

// Reset is what happens to an exchange between two requests.
func (x *Exchange) Reset() { x.reset() }

// Running is the number of dependencies that run or are about to stop.
func (r *Runtime) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running)
}

// Kept is everything that the exchange's scratch memory still refers to.
func (x *Exchange) Kept() (kept int) {
	for _, w := range x.scratch[:cap(x.scratch)] {
		if w != nil {
			kept++
		}
	}
	for _, w := range x.watchers[:cap(x.watchers)] {
		if w != nil {
			kept++
		}
	}
	return kept
}
