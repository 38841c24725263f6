package engine

import "time"

// pace says how long a request takes and how much of its prompt was cached. It is all that answers know of speed, so a model of
// a real engine (prefill speed, KV cache, queue) can take its place.
type pace struct {
	ttft time.Duration // from the head of the request to its first token
	itl  time.Duration // between two tokens
}

// due is when token k (from 0) is ready, counted from the head of the request.
func (p pace) due(k int) time.Duration {
	return p.ttft + time.Duration(max(k, 0))*p.itl
}

// cached is how many of the prompt's tokens need no prefill.
func (p pace) cached(_ int) int { return 0 }

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
