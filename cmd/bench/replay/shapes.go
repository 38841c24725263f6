package replay

import (
	"fmt"
	"time"
)

// The kinds of segments that many requests share.
const (
	sharedPrefix = iota + 1
	systemPrompt
	theHotPrefix
	warmPrefix
)

// sharedPrefixes is a request of "shared": one of 150 prefixes of 6,000 tokens, 1,200 of its own, a long answer.
func sharedPrefixes(b *builder) {
	b.arrive(&Request{
		Prompt: []Segment{named(sharedPrefix, b.rng.IntN(150), 6000), b.fresh(1200)},
		Output: 1000,
	})
}

// sessions is a session of "sessions": 5 to 20 turns, each with all that was said before, behind the system prompt of one of 20
// applications.
func sessions(b *builder) {
	turns := b.between(5, 20)
	key := fmt.Sprintf("session-%d", len(b.w.Roots))
	talk := []Segment{named(systemPrompt, b.zipf(20), 1024)}
	all := make([]Request, turns)
	for k := range all {
		said := b.around(300, 10)
		if k == 0 {
			said = b.around(800, 10)
		}
		talk = append(talk, b.fresh(said))
		all[k] = Request{Prompt: talk[:len(talk):len(talk)], Output: b.around(150, 1), Key: key, Think: b.think()}
		talk = append(talk, b.fresh(all[k].Output)) // the answer is a part of the next prompt
		if k > 0 {
			all[k-1].Next = &all[k]
		}
	}
	b.arrive(&all[0])
}

// bursts is a burst of "bursts": 8 to 32 requests, 20 ms apart, on one prefix of 20,000 tokens; half of them return. The distance within
// a burst does not shrink as the rate grows; see [Workload.Roots] and run.arrival.
func bursts(b *builder) {
	b.now += b.rng.ExpFloat64()
	prefix := b.fresh(20_000)
	for k := range b.between(8, 32) {
		own := []Segment{prefix, b.fresh(500), b.fresh(2000)}
		r := &Request{Prompt: own[:2], Output: b.between(20, 150), Delay: time.Duration(k) * 20 * time.Millisecond}
		if b.rng.IntN(2) == 0 {
			r.Next, r.Think = &Request{Prompt: own, Output: b.between(20, 150)}, b.think()
		}
		b.join(r)
	}
}

// hotPrefix is a request of "hot": 40 % on one prefix of 8,000 tokens, the others on 200 of 4,000, of which a few are liked most.
func hotPrefix(b *builder) {
	prompt := []Segment{named(theHotPrefix, 0, 8000), b.fresh(500)}
	if b.rng.Float64() >= 0.4 {
		prompt = []Segment{named(warmPrefix, b.zipf(200), 4000), b.fresh(800)}
	}
	b.arrive(&Request{Prompt: prompt, Output: b.between(100, 200)})
}
