package replay

import "github.com/smg-go/smg/cmd/mockengine/engine"

// Oracle is the name of what no gateway can be: it sees the true queues of engines that share one cache as large as all of theirs.
// What a policy carries is given as a share of what the oracle carries.
const Oracle = "oracle"

// oracle chooses by the rule of least_work, with the truth in the place of estimates.
type oracle struct {
	run     *run
	cache   *engine.KVCache
	queued  []int            // of each engine: tokens to compute of the requests that have no first token
	coming  []map[uint64]int // of each engine: pages that it will have computed by the end of its queue
	claims  map[*call]int    // what each call has added to queued
	busy    float64          // share of engines with a queue, averaged over requests
	average float64          // weight of one request in it
}

// newOracle makes the run's engines share their memory.
func newOracle(r *run) *oracle {
	o := &oracle{
		run: r, cache: engine.NewKVCache(r.size * r.config(0).Pages()), queued: make([]int, r.size),
		coming: make([]map[uint64]int, r.size), claims: map[*call]int{}, average: 0.01,
	}
	for i := range o.coming {
		o.coming[i] = map[uint64]int{}
	}
	r.shared, r.engines = true, r.models(o.cache)
	return o
}

func (o *oracle) choose(c *call, _ []uint32) int {
	cached := 0
	for cached < len(c.job.Pages) && o.cache.Has(c.job.Pages[cached]) {
		cached++
	}
	queues := 0
	best, least, claim := 0, 0.0, 0
	for i, m := range o.run.engines {
		queue := max(0, o.queued[i]-m.Progress())
		if queue > 0 {
			queues++
		}
		u := o.remaining(c, i, cached)
		n, limit := m.InFlight(), m.Config().MaxRunning
		j := float64(queue) + o.factor()*float64(u) + 320*float64(n) + 1600*float64(max(0, n+1-limit))
		j /= float64(m.Config().PrefillTPS)
		if i == 0 || j < least {
			best, least, claim = i, j, u
		}
	}
	o.busy += o.average * (float64(queues)/float64(o.run.size) - o.busy)
	o.claims[c] = claim
	o.queued[best] += claim
	for _, page := range c.job.Pages {
		o.coming[best][page]++
	}
	return best
}

// remaining is what an engine would have to compute of a prompt of which so many pages are in the cache.
func (o *oracle) remaining(c *call, i, pages int) int {
	for pages < len(c.job.Pages) && o.coming[i][c.job.Pages[pages]] > 0 {
		pages++
	}
	return max(1, c.job.Tokens-pages*o.run.w.Page)
}

// factor is what a token that is computed costs all who wait behind it.
func (o *oracle) factor() float64 { return 1 + 1/(1-min(o.busy, 0.9)) }

func (o *oracle) first(c *call) {
	o.queued[c.engine] -= o.claims[c]
	delete(o.claims, c)
	coming := o.coming[c.engine]
	for _, page := range c.job.Pages {
		if coming[page]--; coming[page] == 0 {
			delete(coming, page)
		}
	}
}

func (*oracle) done(*call) {}
func (*oracle) poll()      {}
func (*oracle) upkeep()    {}

func (o *oracle) quiet() error {
	for i, tokens := range o.queued {
		if tokens != 0 || len(o.coming[i]) != 0 {
			return errBooks
		}
	}
	return nil
}
