package policy

import (
	"math"
	"slices"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// affinity is what one decision of cache_aware knows of the holders: the candidates that have enough of the prompt.
type affinity struct {
	holders []prefixHolder
	units   int     // of the prompt, that the candidate with most of it has
	ratio   float64 // the same as a share of the prompt
	members []int   // places of those that are compared by expected wait; nil: all
	room    []int   // for them
	spread  bool    // they are those that have too little of the prompt
	weights []float64
}

// prefixHolder is one of them.
type prefixHolder struct {
	worker *workers.Worker
	place  int
	units  int // of the prompt
	hot    bool
	score  float64 // 1 for one that has as much as any
}

// find finds the holders, and tells whether there are any. Nobody is a member yet.
func (a *affinity) find(v *visit, among workers.List, share float64) bool {
	a.holders, a.members, a.units, a.ratio, a.spread = a.holders[:0], nil, 0, 0, false
	if v.best == 0 {
		return false
	}
	for place, w := range among.Members() {
		units := v.units(w)
		a.units = max(a.units, units)
		if float64(units)/float64(v.input) > share {
			a.holders = append(a.holders, prefixHolder{worker: w, place: place, units: units})
		}
	}
	a.ratio = float64(a.units) / float64(v.input)
	return len(a.holders) > 0
}

// holds tells whether the candidate at a place is a holder.
func (a *affinity) holds(place int) bool {
	return slices.ContainsFunc(a.holders, func(h prefixHolder) bool { return h.place == place })
}

// group makes those holders members that are not hot and of these have the highest score; false if all are hot.
func (a *affinity) group(g gate, by preference) bool {
	cool := false
	for i := range a.holders {
		h := &a.holders[i]
		h.hot = g.hot(h.worker.InFlight())
		h.score = float64(h.units) / float64(a.units)
		cool = cool || !h.hot
	}
	if !cool {
		return false
	}
	if by.decay > 0 {
		a.decay(by)
	}
	chosen := a.draw(by.temperature, by.chance)
	a.members = a.room[:0]
	for _, h := range a.holders {
		if !h.hot && h.score == chosen {
			a.members = append(a.members, h.place)
		}
	}
	a.room = a.members
	return true
}

// widen makes the candidates members that are no holders, if all of these are cold and every holder has its share of the load: false if
// not. Without it a prompt that most of a fleet holds would never reach the last few, since holders that share its load are not hot.
func (a *affinity) widen(g gate, among workers.List) bool {
	if g.cold <= 0 || len(a.holders) == among.Len() {
		return false
	}
	if slices.ContainsFunc(a.holders, func(h prefixHolder) bool { return float64(h.worker.InFlight()) < g.mean }) {
		return false
	}
	a.room = a.room[:0]
	next := 0 // of the holders, who are in the order of the candidates
	for place, w := range among.Members() {
		if next < len(a.holders) && a.holders[next].place == place {
			next++
			continue
		}
		if float64(w.InFlight()) >= g.cold {
			return false
		}
		a.room = append(a.room, place)
	}
	a.members, a.spread = a.room, true
	return true
}

// cool makes all candidates members that are not hot; all of them if all are.
func (a *affinity) cool(g gate, among workers.List) {
	a.members = a.room[:0]
	for place, w := range among.Members() {
		if !g.hot(w.InFlight()) {
			a.members = append(a.members, place)
		}
	}
	a.room = a.members
	if len(a.members) == 0 {
		a.members = nil
	}
}

// gate tells who is hot: who has more requests in flight than both factor and number.
type gate struct {
	factor, number float64
	mean           float64 // requests in flight of a candidate
	cold           float64 // as far below it as hot is above; who has less is cold. 0: nobody
}

func (g gate) hot(inFlight int64) bool {
	return float64(inFlight) > g.factor && float64(inFlight) > g.number
}

// newGate is the gate for a fleet.
func newGate(among workers.List, rel float64, abs int64) gate {
	sum := int64(0)
	for _, w := range among.Members() {
		sum += w.InFlight()
	}
	mean := float64(sum) / float64(among.Len())
	g := gate{factor: mean * rel, number: mean + float64(abs), mean: mean}
	if rel < float64(among.Len()) { // else nobody can be hot: the gate is off
		g.cold = max(0, min(mean/rel, mean-float64(abs)))
	}
	return g
}

// preference is how holders are ranked.
type preference struct {
	decay       float64 // by how much a queue takes away from a prefix; 0: nothing
	temperature float64 // how often it is not the best; 0: never
	block       int     // tokens
	blocks      int     // of the request, at least 1
	chance      *Chance
}

// decay lowers the score of those that have a longer queue than the one with the shortest. Who does not say what waits keeps its score.
func (a *affinity) decay(by preference) {
	shortest := int64(math.MaxInt64)
	for _, h := range a.holders {
		if r := h.worker.Report(); r != nil && !r.Vague {
			shortest = min(shortest, max(0, r.WaitingTokens))
		}
	}
	for i := range a.holders {
		if r := a.holders[i].worker.Report(); r != nil && !r.Vague {
			a.holders[i].score *= by.remainder(max(0, r.WaitingTokens) - shortest)
		}
	}
}

// remainder is what is left of a score behind so many more tokens that wait.
func (by preference) remainder(backlog int64) float64 {
	return 1 / (1 + by.decay*float64(backlog)/float64(by.block)/float64(by.blocks))
}

// draw is the highest score of a holder that is not hot; with a temperature, sometimes that of another.
func (a *affinity) draw(temperature float64, chance *Chance) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, h := range a.holders {
		if !h.hot {
			low, high = min(low, h.score), max(high, h.score)
		}
	}
	if temperature <= 0 || low == high {
		return high // all of them are in the group then, and the tie is broken later
	}
	a.weights = a.weights[:0]
	sum := 0.0
	for _, h := range a.holders {
		weight := 0.0
		if !h.hot {
			weight = warmth(h.score, low, high, temperature)
		}
		sum += weight
		a.weights = append(a.weights, weight)
	}
	at := chance.float() * sum
	for i, weight := range a.weights {
		if at -= weight; at < 0 {
			return a.holders[i].score
		}
	}
	return high
}

// warmth is the weight of a score between the lowest and the highest.
func warmth(score, low, high, temperature float64) float64 {
	return math.Exp(((score-low)/(high-low) - 1) / temperature)
}

// explain says of those that were compared how much of the prompt they have, and of the others why they were not.
func (a *affinity) explain(e *pipeline.Explanation, before int, among workers.List, v *visit) {
	share := func(w *workers.Worker) float64 { return float64(v.units(w)) / float64(max(1, v.input)) }
	for i := before; i < len(e.Scores); i++ {
		s := &e.Scores[i]
		s.Parts = append(s.Parts, pipeline.Part{Name: "matched_share", Value: share(s.Worker)})
	}
	if a.members == nil {
		return
	}
	for place, w := range among.Members() {
		if !slices.Contains(a.members, place) {
			e.Leave(w, "policy", a.reason(place))
		}
	}
}

// reason is why a candidate was not compared with others.
func (a *affinity) reason(place int) string {
	for _, h := range a.holders {
		switch {
		case h.place != place:
		case a.spread:
			return "it has much more in flight than all that have too little of the prompt"
		case h.hot:
			return "hot: it has much more in flight than the others"
		default:
			return "others have more of the prompt"
		}
	}
	if slices.ContainsFunc(a.holders, func(h prefixHolder) bool { return !h.hot }) {
		return "it has too little of the prompt"
	}
	return "hot: it has much more in flight than the others"
}
