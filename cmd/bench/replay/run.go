package replay

import (
	"container/heap"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

const (
	warmup   = 0.3 // share of a run that is not measured
	slowness = 2   // how much longer the slow engine takes
)

// fleet is what all runs of a comparison have in common.
type fleet struct {
	size       int           // engines
	gateways   int           // each with a view of its own
	every      time.Duration // between load reports; 0: there are none
	slow       bool          // the first engine has half the speed
	tokenError float64       // share by which policies misjudge the length of a prompt
	seed       uint64
}

// run is a workload at one rate against one fleet.
type run struct {
	fleet
	w    *Workload
	rate float64 // requests a second
	ends time.Duration

	now      time.Duration
	arrivals arrivals
	engines  []*engine.Model
	steps    []time.Duration // of each engine, when its step ends; never if it has none
	router   router
	shared   bool // the engines have one cache
	spare    []*call
	next     struct{ poll, upkeep time.Duration }
	requests int // that will come, if all do
	begun    int // calls so far
	underWay int

	hopeless bool            // stop once it is certain that too many first tokens come late
	came     []time.Duration // of each call that is measured and has no first token, when it came; else never
	overdue  int             // calls before this one have their first token, or are counted as late
	stats    stats
}

// router sends requests to engines.
type router interface {
	// choose is the engine for a call.
	choose(c *call) int
	first(c *call)
	done(c *call)
	// poll hands over the load report of every engine, if anybody reads them.
	poll()
	upkeep()
	// quiet is an error if something is still booked after the last request.
	quiet() error
}

// call is one request under way.
type call struct {
	run      *run
	req      *Request
	number   int
	at       time.Duration // when it came
	engine   int
	measured bool
	job      engine.Job
	first    time.Duration // from its coming to its first token

	gateway int
	x       *pipeline.Exchange
	leg     *pipeline.Leg
}

func newRun(f fleet, w *Workload, rate float64) *run {
	r := &run{fleet: f, w: w, rate: rate, stats: newStats(f.size)}
	for _, q := range w.Roots {
		at := seconds(q.At/rate) + q.Delay
		if w.Lasts > 0 && at > w.Lasts {
			break
		}
		r.arrivals = append(r.arrivals, arrival{at, len(r.arrivals), q})
		r.ends = max(r.ends, at)
		for ; q != nil; q = q.Next {
			r.requests++
		}
	}
	heap.Init(&r.arrivals)
	return r
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// models makes the engines; all share one cache if it is given.
func (r *run) models(shared *engine.KVCache) []*engine.Model {
	models := make([]*engine.Model, r.size)
	for i := range models {
		models[i] = engine.NewModel(r.config(i), shared)
	}
	return models
}

func (r *run) config(i int) engine.ModelConfig {
	c := r.w.Engine
	c.KVTokens, c.PageSize = r.w.KVTokens, r.w.Page
	c = c.Complete()
	if r.slow && i == 0 {
		c.PrefillTPS /= slowness
		c.ITL *= slowness
		c.BatchSlowdown *= slowness
	}
	return c
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// errBooks says that something was not given back.
var errBooks = errors.New("the books are not at 0 after the last request")

// play runs to the end.
func (r *run) play() error {
	r.router.poll()
	r.next.poll = r.every
	r.steps = slices.Repeat([]time.Duration{never}, r.size)
	for r.underWay > 0 || len(r.arrivals) > 0 {
		if r.hopeless && r.late() {
			return nil
		}
		if !r.turn() {
			return errBooks
		}
	}
	for _, m := range r.engines {
		if m.InFlight() > 0 || m.Held() > 0 {
			return errBooks
		}
	}
	return r.router.quiet()
}

// late tells whether more first tokens are late than may be, whatever the others do. Those that should have come by now count.
func (r *run) late() bool {
	for r.overdue < len(r.came) && (r.came[r.overdue] == never || r.now-r.came[r.overdue] > r.w.Limit) {
		if r.came[r.overdue] != never {
			r.stats.late++
		}
		r.overdue++
	}
	return float64(r.stats.late) > 0.1*float64(r.requests-r.stats.unmeasured)
}

// turn lets the next thing happen: the end of an engine's step, a poll, or a request's coming; false if nothing ever will.
func (r *run) turn() bool {
	at, who := never, -1
	for i, ends := range r.steps {
		if ends < at {
			at, who = ends, i
		}
	}
	if r.every > 0 && r.next.poll <= at && (len(r.arrivals) == 0 || r.next.poll <= r.arrivals[0].at) {
		r.now = r.next.poll
		r.next.poll += r.every
		r.router.poll()
		return true
	}
	if who < 0 && len(r.arrivals) == 0 {
		return false
	}
	if len(r.arrivals) == 0 || at <= r.arrivals[0].at {
		r.now = at
		r.advance(who)
		return true
	}
	a := heap.Pop(&r.arrivals).(arrival)
	r.now = a.at
	if r.now >= r.next.upkeep {
		r.router.upkeep()
		r.next.upkeep = r.now + time.Second
	}
	r.send(a.req)
	return true
}

// advance ends an engine's step. Others that share its cache may begin then.
func (r *run) advance(who int) {
	r.engines[who].Advance(r.now)
	r.look(who)
	if !r.shared {
		return
	}
	for i, m := range r.engines {
		m.Advance(r.now)
		r.look(i)
	}
}

// look notes when the step of an engine ends.
func (r *run) look(i int) {
	at, busy := r.engines[i].Next()
	if !busy {
		at = never
	}
	r.steps[i] = at
}

// send routes a request and submits it.
func (r *run) send(q *Request) {
	c := r.take()
	*c = call{run: r, req: q, number: r.begun, at: r.now, job: c.job} // the job for its memory
	c.measured = r.now >= time.Duration(warmup*float64(r.ends)) && r.now <= r.ends
	r.begun++
	r.underWay++
	r.stats.came(c)
	r.came = append(r.came, never)
	if c.measured {
		r.came[c.number] = r.now
	}
	c.job.Pages, c.job.Tokens, c.job.Output, c.job.Owner, c.job.Ends = q.pages, q.tokens, q.Output, c, true
	c.engine = r.router.choose(c)
	r.engines[c.engine].Submit(r.now, &c.job)
	r.look(c.engine)
}

func (r *run) take() *call {
	if n := len(r.spare); n > 0 {
		c := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return c
	}
	return &call{}
}

// Token is called by the engine's model.
func (c *call) Token(j *engine.Job, k int, at time.Duration) {
	r := c.run
	if k == 0 {
		c.first = at - c.at
		r.router.first(c)
		r.came[c.number] = never
		r.stats.first(c)
		if c.measured && c.first > r.w.Limit && c.number >= r.overdue {
			r.stats.late++
		}
	}
	if k < j.Output-1 {
		return
	}
	r.router.done(c)
	r.stats.done(c, at-c.at)
	r.underWay--
	if next := c.req.Next; next != nil && (r.w.Lasts == 0 || at+c.req.Think <= r.ends) {
		heap.Push(&r.arrivals, arrival{at + c.req.Think, c.number, next})
	}
	r.spare = append(r.spare, c)
}

// arrival is a request that will come.
type arrival struct {
	at    time.Duration
	order int // of those that come at once
	req   *Request
}

// arrivals is a heap, the soonest first.
type arrivals []arrival

func (a arrivals) Len() int      { return len(a) }
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a arrivals) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].order < a[j].order
}
func (a *arrivals) Push(x any) { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}
