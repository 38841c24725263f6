package workers

// Cordon takes a registered worker out of the candidates at once, or lets it go again. Its state stays as it is, and so does what is
// counted of it: it is probed and polled, requests in flight go on, and GET /workers shows its status with "cordoned": true beside it.
// A replacement of the registration is cordoned if the worker was. Who cordons a worker removes it or lets it go.
//
// done is false if this very registration, at this revision, is not there any more; then nothing has changed.
func (r *Registry) Cordon(w *Worker, on bool) (done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.owner.Load() != r {
		return false
	}
	w.cordoned.Store(on)
	r.tally(w)
	return true
}
