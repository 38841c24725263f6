package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Request is one request of a workload. It is the same in every run.
type Request struct {
	Prompt []Segment
	Output int           // tokens
	Key    string        // the routing key; "" without one
	At     float64       // when it comes, in mean distances between requests; of a follower 0
	Delay  time.Duration // added to that, at every rate
	Next   *Request      // comes when this one is over and Think has passed; nil: none does
	Think  time.Duration // before Next

	tokens int      // of the prompt
	pages  []uint64 // digests of its whole pages
}

// Workload is what the clients of a fleet do. Its rate is set by the run.
type Workload struct {
	Name     string
	Limit    time.Duration // the fleet can carry a rate if 90 % of first tokens come within that
	KVTokens int           // tokens that an engine's cache holds
	Page     int           // tokens of a page of it

	// Engine is how fast engines are and how much they run at once; what is 0 is the usual. Their cache is as the fields above say.
	Engine   engine.ModelConfig
	Roots    []*Request    // those that follow no other, in the order of their coming
	Requests int           // all of them
	Guess    float64       // requests a second that an engine may carry: where the search begins
	Rate     float64       // requests a second at which they came once; 0: they never did
	Lasts    time.Duration // how long a run takes at every rate; 0: as long as all requests take to come

	alike uint // segments whose ids are equal but for so many bits are misjudged alike
}

// shape is how a workload is made.
type shape struct {
	name     string
	limit    time.Duration
	kvTokens int
	guess    float64 // requests a second and engine
	seconds  float64 // how long a run takes at that rate
	fixed    bool    // it takes so long at every rate: those who think do not think faster
	build    func(b *builder)
	trace    string // the file; "" for those that are made
}

// shapes are the workloads, as least-work.md, section 4, has them.
var shapes = []shape{
	{name: "conv", limit: 5 * time.Second, kvTokens: 800_000, trace: "conversation_trace.jsonl.gz", guess: 2},
	{name: "synth", limit: 5 * time.Second, kvTokens: 800_000, trace: "synthetic_trace.jsonl.gz", guess: 3},
	{name: "shared", limit: 2 * time.Second, kvTokens: 400_000, guess: 2.4, seconds: 500, build: sharedPrefixes},
	{name: "sessions", limit: 2 * time.Second, kvTokens: 400_000, guess: 10, seconds: 500, fixed: true, build: sessions},
	{name: "bursts", limit: 5 * time.Second, kvTokens: 400_000, guess: 8, seconds: 300, build: bursts},
	{name: "hot", limit: 2 * time.Second, kvTokens: 400_000, guess: 10, seconds: 200, build: hotPrefix},
}

// pageTokens is the page of workloads that are made: small beside their prefixes, and large enough for quick runs. Traces have their
// own block.
const pageTokens = 64

// Workloads are the names of the workloads.
func Workloads() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// NewWorkload makes a workload for a fleet of so many engines. length stretches the run, 1 is the usual; traces have their own.
func NewWorkload(name string, engines int, seed uint64, length float64) (*Workload, error) {
	for _, s := range shapes {
		if s.name == name {
			return s.make(engines, seed, length)
		}
	}
	return nil, fmt.Errorf("unknown workload %q; there are %s", name, strings.Join(Workloads(), ", "))
}

func (s shape) make(engines int, seed uint64, length float64) (*Workload, error) {
	w := &Workload{Name: s.name, Limit: s.limit, KVTokens: s.kvTokens, Page: pageTokens, Guess: s.guess}
	if s.trace != "" {
		return w, w.embedded(s.trace, length)
	}
	b := &builder{w: w, rng: rand.New(rand.NewPCG(seed, 1)), most: max(1, int(s.guess*s.seconds*length*float64(engines)))}
	if s.fixed {
		w.Lasts = seconds(s.seconds * length)
		b.most *= 3 // enough for rates up to three times the guess
	}
	for w.Requests < b.most {
		s.build(b)
	}
	w.normalize()
	return w, nil
}

// normalize makes the mean distance between requests the unit of time, and digests their prompts.
func (w *Workload) normalize() {
	for _, r := range w.Roots {
		r.digest(w.Page)
	}
	if len(w.Roots) == 0 {
		return
	}
	last := w.Roots[len(w.Roots)-1].At
	if last <= 0 {
		return
	}
	for _, r := range w.Roots {
		r.At *= float64(w.Requests) / last
	}
}

// digest reads the prompts of a request and of those that follow it, which no run needs to do then. A prompt that the next one goes on
// from shares its digests.
func (r *Request) digest(page int) {
	r.tokens = tokensOf(r.Prompt)
	if r.Next != nil {
		r.Next.digest(page)
		if n := len(r.Prompt); n <= len(r.Next.Prompt) && slices.Equal(r.Prompt, r.Next.Prompt[:n]) {
			r.pages = r.Next.pages[:r.tokens/page]
			return
		}
	}
	r.pages = appendPages(make([]uint64, 0, r.tokens/page), r.Prompt, page)
}

// builder makes the requests of a workload, one root or a group of them at a time.
type builder struct {
	w    *Workload
	rng  *rand.Rand
	most int     // requests
	now  float64 // in any unit
	id   uint64  // the last segment's
}

// fresh is a segment that no other request has, or that later ones share.
func (b *builder) fresh(tokens int) Segment {
	b.id++
	return Segment{b.id << 8, tokens}
}

// named is the segment of a number; all requests share it.
func named(kind, number, tokens int) Segment {
	return Segment{1<<63 | uint64(kind)<<32 | uint64(number), tokens}
}

// arrive adds a root after the exponential distance of a Poisson process of mean 1.
func (b *builder) arrive(r *Request) {
	b.now += b.rng.ExpFloat64()
	b.join(r)
}

// join adds a root at the present.
func (b *builder) join(r *Request) {
	r.At = b.now
	b.w.Roots = append(b.w.Roots, r)
	for ; r != nil; r = r.Next {
		b.w.Requests++
	}
}

// around is a log-normal number with that median; two thirds of all are within a factor of 2 of it.
func (b *builder) around(median float64, least int) int {
	return max(least, int(math.Min(median*math.Exp(0.7*b.rng.NormFloat64()), 20*median)))
}

// between is uniform, both ends included.
func (b *builder) between(low, high int) int { return low + b.rng.IntN(high-low+1) }

// think is 2 s and an exponential time of mean 8 s.
func (b *builder) think() time.Duration {
	return time.Duration((2 + 8*b.rng.ExpFloat64()) * float64(time.Second))
}

// zipf draws from 1 to n, k with a weight of 1/k.
func (b *builder) zipf(n int) int {
	sum := 0.0
	for k := 1; k <= n; k++ {
		sum += 1 / float64(k)
	}
	at := b.rng.Float64() * sum
	for k := 1; k < n; k++ {
		if at -= 1 / float64(k); at < 0 {
			return k
		}
	}
	return n
}
