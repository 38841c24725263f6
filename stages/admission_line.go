package stages

// waiter is a request that waits for admission.
type waiter struct {
	granted    chan struct{} // gets one when the request has a permit
	prev, next *waiter
	in         bool // it waits
}

func newWaiter() *waiter { return &waiter{granted: make(chan struct{}, 1)} }

// grant tells the request that it has a permit. It does not block.
func (w *waiter) grant() { w.granted <- struct{}{} }

// waitingLine is who waits, the first come first. Anybody can leave it at no more cost than the first.
type waitingLine struct {
	first, last *waiter
	len         int
}

func (l *waitingLine) push(w *waiter) {
	w.prev, w.next, w.in = l.last, nil, true
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.len++
}

// pop takes out who has waited longest; nil if nobody waits.
func (l *waitingLine) pop() *waiter {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

// remove reports whether w was in the line.
func (l *waitingLine) remove(w *waiter) bool {
	if !w.in {
		return false
	}
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.in = nil, nil, false
	l.len--
	return true
}
