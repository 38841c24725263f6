package engine

import "time"

// pace says how long a request takes where there is no [Model], or a fault sets the times.
type pace struct {
	ttft time.Duration // from the head of the request to its first token
	itl  time.Duration // between two tokens
}

// due is when token k (from 0) is ready, counted from the head of the request.
func (p pace) due(k int) time.Duration {
	return p.ttft + time.Duration(max(k, 0))*p.itl
}

// slowed is the pace with what a fault says about speed.
func (p pace) slowed(f *Fault) pace {
	if f == nil {
		return p
	}
	if f.TTFTMillis > 0 {
		p.ttft = millis(f.TTFTMillis)
	}
	if f.ITLMillis > 0 {
		p.itl = millis(f.ITLMillis)
	}
	return p
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// timed tells whether a fault says how fast the answer comes; then the model has no part in it.
func (f *Fault) timed() bool { return f != nil && (f.TTFTMillis > 0 || f.ITLMillis > 0) }

// ready waits until token k of the answer is there; errGone if the peer leaves before. Without a model, or with a fault that sets the
// times, that is a matter of time alone.
func (c *conn) ready(k int) error {
	if c.ride == nil {
		return c.until(c.pace.due(k))
	}
	c.peer.watch()
	for c.ride.made.Load() <= int64(k) {
		select {
		case <-c.ride.more:
		case <-c.peer.gone:
			return errGone
		}
	}
	c.answer.cached = c.ride.job.Cached
	return nil
}

// isReady tells whether ready would wait.
func (c *conn) isReady(k int) bool {
	if c.ride == nil {
		return time.Since(c.at) >= c.pace.due(k)
	}
	return c.ride.made.Load() > int64(k)
}
