package workers

// Depth is how many jobs wait for their turn, and how many work. Those that have given their place up while they wait for something
// are neither.
func (j *Jobs) Depth() (waiting, working int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pending, j.working
}
