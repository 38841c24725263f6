package policy

import (
	"math"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// best is the result of one pass over the candidates: the best of those with a report, the one with least in flight of the others.
type best struct {
	reported lot
	score    float64 // seconds, of those
	dark     lot
	inFlight int64   // requests, of those
	sum      float64 // of throughputs that were reported, if any candidate has no report
	rates    int     // how many these are
	busy     int64   // requests in flight at the best of those with a report, if any candidate has none
	partly   bool    // some candidate has a vague report
	vague    lot     // the best of those, if others have a report that is not
	floor    float64 // seconds, its score
}

// compare looks at every candidate once.
func (s *expectedWait) compare(among workers.List, members []int) best {
	b := best{score: math.Inf(1), inFlight: math.MaxInt64, reported: lot{chance: s.chance}, dark: lot{chance: s.chance}} // above every other: the first of each is better
	all := among.Members()
	if members == nil {
		b.pass(s, all, 0)
	}
	for _, place := range members {
		b.pass(s, all[:place+1], place)
	}
	if (b.dark.held > 0 || b.partly) && b.reported.held > 0 {
		s.nominal(&b, all, members)
		b.busy = all[b.reported.place].InFlight()
	}
	if b.partly {
		b.passVague(s, all, members)
	}
	return b
}

// pass looks at the candidates from a place on. A fleet has thousands: what is read of each is as little as can be, so that the processor
// fetches those behind it meanwhile.
func (b *best) pass(s *expectedWait, all []*workers.Worker, place int) {
	for place < len(all) {
		place = b.passDark(all, place)
		place = b.passReported(s, all, place)
	}
}

// passDark looks at the candidates from a place on up to the first that has a report, and returns its place. The
// lot's counts are at hand in variables; what follows from them is [lot.join] and [lot.restart].
func (b *best) passDark(all []*workers.Worker, place int) int {
	least, held, next := b.inFlight, b.dark.held, b.dark.next
	for ; place < len(all); place++ {
		w := all[place]
		if w.Report() != nil {
			break
		}
		n := w.InFlight()
		if n > least {
			continue
		}
		if n == least {
			if held++; held < next {
				continue
			}
			b.dark.held = held
			b.dark.turn(place)
		} else {
			least = n
			b.dark.restart(place)
		}
		held, next = b.dark.held, b.dark.next
	}
	b.inFlight, b.dark.held = least, held
	return place
}

// passReported is the same up to the first that has none.
func (b *best) passReported(s *expectedWait, all []*workers.Worker, place int) int {
	least, held, next := b.score, b.reported.held, b.reported.next
	for ; place < len(all); place++ {
		w := all[place]
		r := w.Report()
		if r == nil {
			break
		}
		a := s.known(w, r)
		if a == nil {
			a = s.account(w, r)
		}
		if a.rank == least {
			if held++; held < next {
				continue
			}
			b.reported.held = held
			b.reported.turn(place)
		} else if a.rank < least {
			least = a.rank
			b.reported.restart(place)
		} else {
			b.partly = b.partly || math.IsNaN(a.rank) && r.Vague // not a number: over the cap, or vague
			continue
		}
		held, next = b.reported.held, b.reported.next
	}
	b.score, b.reported.held = least, held
	return place
}

// passVague looks at the candidates whose report is vague. Where nobody has a better one they are among those that have none.
func (b *best) passVague(s *expectedWait, all []*workers.Worker, members []int) {
	b.vague, b.floor = lot{chance: s.chance}, math.Inf(1)
	for k := range compared(all, members) {
		place := placeAt(members, k)
		w := all[place]
		r := w.Report()
		if r == nil || !r.Vague {
			continue
		}
		a := s.account(w, r)
		switch n := w.InFlight(); {
		case s.full(a):
		case b.reported.held > 0:
			score := b.atLeast(s, a, n)
			if score < b.floor {
				b.floor = score
				b.vague.restart(place)
			} else if score == b.floor {
				b.vague.join(place)
			}
		case n < b.inFlight:
			b.inFlight = n
			b.dark.restart(place)
		case n == b.inFlight:
			b.dark.join(place)
		}
	}
}

// atLeast is the score of a worker with a vague report: not below that of one without, and not below what it says of its load.
func (b *best) atLeast(s *expectedWait, a *account, inFlight int64) float64 {
	return max(a.score, b.behind(s, inFlight))
}

// compared is how many candidates are compared.
func compared(all []*workers.Worker, members []int) int {
	if members != nil {
		return len(members)
	}
	return len(all)
}

// placeAt is the place of the k-th of them.
func placeAt(members []int, k int) int {
	if members != nil {
		return members[k]
	}
	return k
}

// nominal sums up the throughputs that the candidates report: those which are not over the cap.
func (s *expectedWait) nominal(b *best, all []*workers.Worker, members []int) {
	for k := range compared(all, members) {
		w := all[placeAt(members, k)]
		if r := w.Report(); r != nil && told(r.Throughput) && !s.full(s.account(w, r)) {
			b.sum += r.Throughput
			b.rates++
		}
	}
}

// winner is the place and the score of who wins; -1 if there was nobody.
func (b *best) winner(s *expectedWait) (place int, score float64) {
	if b.reported.held == 0 {
		if b.dark.held == 0 {
			return -1, 0
		}
		return b.dark.place, float64(b.inFlight)
	}
	place, held := b.reported.place, b.reported.held
	tie := func(l *lot) { // nobody else is ever better than the best of those
		if s.chance.intN(held+l.held) >= held {
			place = l.place
		}
		held += l.held
	}
	if b.dark.held > 0 && b.behind(s, b.inFlight) == b.score {
		tie(&b.dark)
	}
	if b.vague.held > 0 && b.floor == b.score {
		tie(&b.vague)
	}
	return place, b.score
}

// behind is the score of a worker without a report: that of the best with one, and on top the requests that it has in flight and the
// best has not. With all of its own it would get work only while it has none, since those of the best are in that one's score already.
func (b *best) behind(s *expectedWait, inFlight int64) float64 {
	rate := s.throughput
	if b.rates > 0 {
		rate = b.sum / float64(b.rates)
	}
	return min(b.score+float64(max(0, inFlight-b.busy))*float64(s.meanPrefill)/rate, math.MaxFloat64)
}

// explain rates every candidate that was compared, and says who was left out by the cap.
func (s *expectedWait) explain(e *pipeline.Explanation, among workers.List, members []int, b *best) {
	all := among.Members()
	for k := range compared(all, members) {
		w := all[placeAt(members, k)]
		r := w.Report()
		a := s.account(w, r)
		switch {
		case r != nil && s.full(a):
			e.Leave(w, "policy", "at the waiting cap")
		case r != nil && r.Vague && b.reported.held > 0:
			score := b.atLeast(s, a, w.InFlight())
			e.Rate(w, score, pipeline.Part{Name: "vague_report", Value: a.score}, pipeline.Part{Name: "no_report", Value: b.behind(s, w.InFlight())})
		case r != nil && !r.Vague:
			e.Rate(w, a.score,
				pipeline.Part{Name: "queued_wait", Value: a.queued / a.rate},
				pipeline.Part{Name: "in_flight_credit", Value: float64(a.credit) / a.rate},
				pipeline.Part{Name: "kv_pressure", Value: a.pressure})
		case b.reported.held == 0:
			e.Rate(w, float64(w.InFlight()), pipeline.Part{Name: "in_flight", Value: float64(w.InFlight())})
		default:
			score := b.behind(s, w.InFlight())
			e.Rate(w, score,
				pipeline.Part{Name: "best_reported", Value: b.score},
				pipeline.Part{Name: "in_flight_wait", Value: score - b.score})
		}
	}
}
