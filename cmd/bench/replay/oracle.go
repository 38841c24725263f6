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
	coming  map[uint64]*dues // by page: who will have computed it by the end of its queue
	spare   []*dues
	claims  map[*call]*claim
	depth   []int   // scratch: of each engine, how many leading pages it will find
	busy    float64 // share of engines with a queue, averaged over requests
	average float64 // weight of one request in it
}

// dues is how many requests in the queue of each engine have a page.
type dues struct {
	page uint64
	all  int
	of   []int32 // by engine
}

// claim is what a call has added.
type claim struct {
	tokens int
	pages  []*dues
}

// newOracle makes the run's engines share their memory.
func newOracle(r *run) *oracle {
	o := &oracle{
		run: r, cache: engine.NewKVCache(r.size * r.config(0).Pages()), queued: make([]int, r.size), depth: make([]int, r.size),
		coming: map[uint64]*dues{}, claims: map[*call]*claim{}, average: 0.01,
	}
	r.shared, r.engines = true, r.models(o.cache)
	return o
}

func (o *oracle) choose(c *call) int {
	o.look(c)
	queues := 0
	best, least, tokens := 0, 0.0, 0
	for i, m := range o.run.engines {
		queue := max(0, o.queued[i]-m.Progress())
		if queue > 0 {
			queues++
		}
		u := max(1, c.job.Tokens-o.depth[i]*o.run.w.Page)
		n, limit := m.InFlight(), m.Config().MaxRunning
		j := float64(queue) + o.factor()*float64(u) + 320*float64(n) + 1600*float64(max(0, n+1-limit))
		j /= float64(m.Config().PrefillTPS)
		if i == 0 || j < least {
			best, least, tokens = i, j, u
		}
	}
	o.busy += o.average * (float64(queues)/float64(o.run.size) - o.busy)
	o.claim(c, best, tokens)
	return best
}

// look finds how many leading pages of a prompt each engine will find: those that are in the cache, and behind these those that are
// in its own queue.
func (o *oracle) look(c *call) {
	pages, k := c.job.Pages, 0
	for k < len(pages) && o.cache.Has(pages[k]) {
		k++
	}
	for i := range o.depth {
		o.depth[i] = k
	}
	for some := true; some && k < len(pages); k++ {
		due := o.coming[pages[k]]
		if due == nil {
			return
		}
		some = false
		for i := range o.depth {
			if o.depth[i] == k && due.of[i] > 0 {
				o.depth[i]++
				some = true
			}
		}
	}
}

// claim notes what an engine will compute for a call.
func (o *oracle) claim(c *call, engine, tokens int) {
	own := &claim{tokens: tokens, pages: make([]*dues, len(c.job.Pages))}
	for k, page := range c.job.Pages {
		due := o.coming[page]
		if due == nil {
			due = o.take()
			due.page = page
			o.coming[page] = due
		}
		due.of[engine]++
		due.all++
		own.pages[k] = due
	}
	o.claims[c] = own
	o.queued[engine] += tokens
}

func (o *oracle) take() *dues {
	if n := len(o.spare); n > 0 {
		due := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return due
	}
	return &dues{of: make([]int32, o.run.size)}
}

// factor is what a token that is computed costs all who wait behind it.
func (o *oracle) factor() float64 { return 1 + 1/(1-min(o.busy, 0.9)) }

func (o *oracle) first(c *call) {
	own := o.claims[c]
	delete(o.claims, c)
	o.queued[c.engine] -= own.tokens
	for _, due := range own.pages {
		due.of[c.engine]--
		if due.all--; due.all == 0 {
			delete(o.coming, due.page)
			o.spare = append(o.spare, due)
		}
	}
}

func (*oracle) done(*call) {}
func (*oracle) poll()      {}
func (*oracle) upkeep()    {}

func (o *oracle) quiet() error {
	for _, tokens := range o.queued {
		if tokens != 0 {
			return errBooks
		}
	}
	if len(o.coming) > 0 || len(o.claims) > 0 {
		return errBooks
	}
	return nil
}
