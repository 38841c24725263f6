package policy

import (
	"math"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// workScratch is what one choice needs; it is reused.
type workScratch struct {
	prompt workPrompt
	known  []uint32 // numbers of the prompt's pages that are in the index
	apart  bool     // the lock was let go of since, so that the numbers may be wrong
	depth  []int32  // by slot: how many of them the worker holds
	marked []int32  // slots where that is not 0
	held   []candidate
}

// candidate is one that holds some of the prompt.
type candidate struct {
	place  int
	work   float64 // tokens that it has to do already
	misses int64   // tokens of the prompt that it would have to compute
}

func (s *workScratch) reset() {
	for _, slot := range s.marked {
		s.depth[slot] = 0
	}
	s.known, s.apart, s.marked, s.held = s.known[:0], false, s.marked[:0], s.held[:0]
}

// verdict is how a choice came out.
type verdict struct {
	place  int
	score  float64 // tokens
	misses int64   // tokens that the chosen one computes
	price  float64 // of a token of the prompt, in tokens
	at     float64 // second of the books
}

// tokenPrice is what a token of the prompt weighs: itself, and the waiting of all behind it, which grows with the share of time in
// which the workers are busy.
func tokenPrice(share float64) float64 { return 1 + 1/(1-min(max(share, 0), busyCap)) }

// judge finds the candidate with the lowest sum of the work that it has to do and the price of the prompt there; of equals, any.
// Both locks are held.
func (p *leastWork) judge(among workers.List, s *workScratch) verdict {
	b := p.books
	v := verdict{at: b.now()}
	blank := lot{chance: p.chance} // of those that hold nothing: for them the prompt costs the same
	least, busy, deviation := math.Inf(1), 0.0, 0.0
	for place, w := range among.Members() {
		l := b.known(w)
		if l == nil {
			l = b.ledger(w)
		}
		if l.due <= v.at {
			l.settle(v.at)
		}
		busy += l.busy
		deviation += l.deviation
		work := l.fixed - l.slope*v.at
		if len(s.marked) > 0 {
			if held := p.index.holds(s, w); held > 0 {
				s.held = append(s.held, candidate{place, work, max(1, s.prompt.tokens-held)})
				continue
			}
		}
		if work == least {
			blank.join(place)
		} else if work < least {
			least = work
			blank.restart(place)
		}
	}
	v.price = tokenPrice((busy + deviation*math.Exp(-v.at/busyMemory)) / float64(among.Len()))
	v.settle(blank, least, s)
	return v
}

// settle compares the best of those that hold nothing with those that hold something.
func (v *verdict) settle(blank lot, least float64, s *workScratch) {
	v.misses = max(1, s.prompt.tokens)
	v.score = least + v.price*float64(v.misses) // infinite if there is none
	best := candidate{misses: v.misses}
	for _, c := range s.held {
		score := c.work + v.price*float64(c.misses)
		if score == v.score {
			if blank.join(c.place); blank.place == c.place {
				best = c
			}
		} else if score < v.score {
			v.score, best = score, c
			blank.restart(c.place)
		}
	}
	v.place, v.misses = blank.place, best.misses
}

// explain rates every candidate. Both locks are held.
func (p *leastWork) explain(e *pipeline.Explanation, among workers.List, s *workScratch, v *verdict) {
	for _, w := range among.All() {
		l := p.books.ledger(w)
		queued, misses := l.tokens(v.at), v.price*float64(max(1, s.prompt.tokens-p.index.holds(s, w)))
		flight, over := inFlightCost*float64(l.inFlight), 0.0
		if l.limit > 0 {
			over = overLimitCost * float64(max(0, l.inFlight+1-l.limit))
		}
		e.Rate(w, queued+misses+flight+over,
			pipeline.Part{Name: "queued_tokens", Value: queued}, pipeline.Part{Name: "prompt", Value: misses},
			pipeline.Part{Name: "in_flight", Value: flight}, pipeline.Part{Name: "over_limit", Value: over})
	}
}
