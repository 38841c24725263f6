package forward

import (
	"sync"
	"time"
)

// trusted is how long an idle connection is reused without looking whether the worker has closed it. A gateway with work to do
// reuses connections sooner and pays nothing; one without has the time for a system call.
const trusted = 10 * time.Millisecond

var epoch = time.Now()

// now is a clock that only goes forward, and is cheaper to read and to keep than a time.Time.
func now() time.Duration { return time.Since(epoch) }

// address is whose connections may stand in for each other.
type address struct {
	dial string
	pool Pool
}

// stack keeps the idle connections of one address. The one used last is reused first: it is the warmest, and those that a
// quiet hour does not need grow old at the bottom.
type stack struct {
	transport *Transport
	address   address

	mu   sync.Mutex
	idle []*conn // in the order in which they became idle
	gone bool    // the address was forgotten: keep nothing
}

// take is the connection to reuse, nil if there is none. sure asks for one that is known to be open.
func (s *stack) take(sure bool) *conn {
	for {
		c := s.pop()
		if c == nil {
			return nil
		}
		idle := now() - c.idleSince
		if !s.expired(idle) && (idle < trusted && !sure || c.alive()) {
			return c
		}
		c.close()
	}
}

func (s *stack) expired(idle time.Duration) bool {
	limit := s.address.pool.IdleTimeout
	return limit > 0 && idle >= limit
}

func (s *stack) pop() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	c := s.idle[n-1]
	s.idle[n-1] = nil
	s.idle = s.idle[:n-1]
	s.transport.idle.Add(-1)
	return c
}

// put keeps a connection, or closes it if there are enough.
func (s *stack) put(c *conn) {
	if len(c.buf) != smallSize {
		c.shrink()
	}
	c.reused = true
	at := now()
	c.idleSince = at
	if !s.push(c) {
		c.close()
		return
	}
	s.transport.sweeper.wake(at + s.lookAfter()) // c may be somebody else's by now
}

func (s *stack) push(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || len(s.idle) >= s.address.pool.MaxIdle {
		return false
	}
	s.idle = append(s.idle, c)
	s.transport.idle.Add(1)
	return true
}

// lookAfter is how long after it was put a connection is looked at: when it expires, or, where none ever does, often enough
// that what a worker has closed does not pile up.
func (s *stack) lookAfter() time.Duration {
	if limit := s.address.pool.IdleTimeout; limit > 0 {
		return limit
	}
	return 30 * time.Second
}

// sweep closes the connections that have expired, or, where none expires, that the worker has closed. It returns when to come
// again, 0 for not at all.
func (s *stack) sweep() time.Duration {
	at := now()
	s.mu.Lock()
	kept := s.idle[:0]
	var dead []*conn
	for _, c := range s.idle {
		idle := at - c.idleSince
		if s.expired(idle) || s.address.pool.IdleTimeout <= 0 && idle >= trusted && !c.alive() {
			dead = append(dead, c)
			continue
		}
		kept = append(kept, c)
	}
	clear(s.idle[len(kept):])
	s.idle = kept
	s.transport.idle.Add(-int64(len(dead)))
	var next time.Duration
	switch {
	case len(kept) == 0:
	case s.address.pool.IdleTimeout > 0:
		next = kept[0].idleSince + s.lookAfter()
	default:
		next = at + s.lookAfter()
	}
	s.mu.Unlock()
	for _, c := range dead {
		c.close()
	}
	return next
}

// empty closes all connections; forget also those that will be put later.
func (s *stack) empty(forget bool) {
	s.mu.Lock()
	dead := s.idle
	s.idle = nil
	s.gone = s.gone || forget
	s.transport.idle.Add(-int64(len(dead)))
	s.mu.Unlock()
	for _, c := range dead {
		c.close()
	}
}
