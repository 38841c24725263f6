package pipeline

// Watcher is told of the two moments of a request that lie inside the forwarding: a worker's head, and the first byte of its
// answer's body. The calls come on the request's goroutine, before next returns.
type Watcher interface {
	Head(x *Exchange, leg *Leg, status int)
	FirstByte(x *Exchange, leg *Leg)
}

// Watch asks for the moments: a stage before the retry stage for those of every attempt, a stage behind it for those of the
// current one.
func (x *Exchange) Watch(w Watcher) { x.watchers = append(x.watchers, w) }

// TellHead is called by a forwarding stage when a worker's response head has come.
func (x *Exchange) TellHead(leg *Leg, status int) {
	for _, w := range x.watchers {
		w.Head(x, leg, status)
	}
}

// TellFirstByte is called by a forwarding stage when the first byte of a worker's response body has come.
func (x *Exchange) TellFirstByte(leg *Leg) {
	for _, w := range x.watchers {
		w.FirstByte(x, leg)
	}
}
