package policy

import (
	"math"
	"sync"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// The tuning of the scorer where flags do not reach: everywhere but in least_load.
const (
	kvPressureWeight  = 0.15 // seconds
	defaultThroughput = 2000 // tokens a second
	meanPrefillTokens = 1024
)

// expectedWait estimates how many seconds a request would wait at each candidate, and chooses the least: what the worker's last
// report says is queued, and what was sent there since (the credit), divided by its throughput; and a penalty for a KV cache that
// fills up. Exact ties are broken uniformly at random. To score, to choose and to credit the winner is one critical section, so that
// two requests at once never see the same worker uncredited.
//
// A worker without a report stands behind the best of those that have one, by what it has more in flight than that; among workers none
// of which has a report the one with least in flight wins. So does one whose report is vague ([workers.Report]), with what it does say of
// its load as a score that it cannot be below. Nothing outside the list that is compared plays a part.
type expectedWait struct {
	weight      float64 // seconds, of KV pressure
	throughput  float64 // tokens a second of a worker that does not say
	meanPrefill int64   // tokens of a request that does not say
	maxWaiting  int64   // requests; 0 is no cap
	clock       func() time.Time
	began       time.Time
	chance      *Chance // breaks ties

	mu       sync.Mutex
	accounts []account // by slot
	gone     departed
	credits  creditLog
}

// account is what the scorer knows of one worker. A choice among thousands reads what is here of them all, and the rest of one.
type account struct {
	worker *workers.Worker
	report *workers.Report // the last one that the worker had; the credit is of what it cannot know of
	rank   float64         // the score; not a number, which is below nothing and equal to nothing, if the worker is over the cap or its report vague
	*estimate
}

// estimate is how the score of a worker comes about.
type estimate struct {
	score    float64 // seconds: (queued + credit) / rate + pressure
	rate     float64 // tokens a second
	queued   float64 // tokens, as reported
	pressure float64 // seconds
	credit   int64   // tokens that were sent to it since the report
	requests uint32  // that they belong to
	newest   uint32  // the last of its entries in the log of credits
}

// newExpectedWait makes a scorer. Values that make no sense fall back: a weight below 0 or not finite to 0.15 s, a throughput
// that is not above 0 or not finite to 2000 tokens/s, a mean below 1 to 1 token. Without a cap maxWaiting is 0. The clock may be
// nil.
func newExpectedWait(kvWeight, throughput float64, meanPrefill, maxWaiting int64, clock func() time.Time) *expectedWait {
	if !(kvWeight >= 0) || math.IsInf(kvWeight, 0) { // not "below 0": that would let NaN pass
		kvWeight = kvPressureWeight
	}
	if !(throughput > 0) || math.IsInf(throughput, 0) {
		throughput = defaultThroughput
	}
	if clock == nil {
		clock = time.Now
	}
	return &expectedWait{
		weight: kvWeight, throughput: throughput, meanPrefill: max(1, meanPrefill), maxWaiting: max(0, maxWaiting),
		clock: clock, began: clock(),
	}
}

// newBuiltInWait makes a scorer with the tuning that no flag changes.
func newBuiltInWait(clock func() time.Time) *expectedWait {
	return newExpectedWait(kvPressureWeight, defaultThroughput, meanPrefillTokens, 0, clock)
}

// pick chooses among the candidates, or those of them at the given places (nil is all), and credits the winner with the request's
// tokens (0 is unknown), without the share of them that it holds. It returns the winner's place among the candidates; -1 if there is
// none, or all are over the cap.
func (s *expectedWait) pick(x *pipeline.Exchange, among workers.List, members []int, tokens int64, held float64) int {
	place, _ := s.choose(x, among, members, tokens, held)
	return place
}

// choose is pick, and tells the winner's score as well.
func (s *expectedWait) choose(x *pipeline.Exchange, among workers.List, members []int, tokens int64, held float64) (place int, score float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.compare(among, members)
	if x == nil {
		x = &undisclosed
	}
	place, score = b.winner(s)
	if x.Explain != nil {
		s.explain(x.Explain, among, members, &b)
	}
	if place >= 0 && !x.DryRun {
		w := among.At(place)
		s.charge(w, uncached(s.weigh(x, w, tokens), held))
	}
	return place, score
}

var undisclosed pipeline.Exchange // stands for no exchange; only read

// weigh is what a worker is credited with for a request. A hint is only the head of a prompt. What is not known is the mean, but no more
// tokens than the body has bytes where the engine reports tokens; where it reports requests, one in its queue stands for the mean as well.
func (s *expectedWait) weigh(x *pipeline.Exchange, w *workers.Worker, tokens int64) int64 {
	switch {
	case x.Prompt.Hinted:
		return max(tokens, s.meanPrefill)
	case tokens > 0:
		return tokens
	case x.Client == nil:
		return s.meanPrefill
	}
	if bytes := x.Client.ContentLength(); bytes > 0 && w.Report().CountsTokens() {
		return min(bytes, s.meanPrefill)
	}
	return s.meanPrefill
}

// uncached is how many of so many tokens are to be computed, at least one.
func uncached(tokens int64, held float64) int64 {
	return max(1, int64(math.Ceil(float64(tokens)*(1-held))))
}

// full tells whether a worker with a report has reached the cap on requests that wait.
func (s *expectedWait) full(a *account) bool {
	return s.maxWaiting > 0 && max(0, a.report.Waiting) >= s.maxWaiting-int64(a.requests)
}

// told tells whether an engine has reported a throughput that can be one.
func told(throughput float64) bool { return throughput > 0 && throughput <= math.MaxFloat64 }

// known is the account of a worker if it is there and the report is no news; else nil.
func (s *expectedWait) known(w *workers.Worker, r *workers.Report) *account {
	if slot := w.Slot(); slot < len(s.accounts) {
		if a := &s.accounts[slot]; a.worker == w && a.report == r {
			return a
		}
	}
	return nil
}

// account is the account of a worker, opened if it is new, with its report taken in. That is not a change of state that a dry run
// must not make: what comes of a report does not depend on when it is noticed. Without a report, because the worker was never
// polled or its last poll failed, the credit goes on; the next report resets it. Who asks for the account of a worker that was removed
// gets an empty one that is not kept.
func (s *expectedWait) account(w *workers.Worker, r *workers.Report) *account {
	slot := w.Slot()
	if slot >= len(s.accounts) {
		s.grow(slot)
	}
	a := &s.accounts[slot]
	if a.worker != w && s.gone.has(w) {
		a = new(account)
	}
	if a.worker != w {
		*a = account{worker: w, estimate: &estimate{}} // the slot was another worker's before
	}
	if r != nil && r != a.report {
		s.take(a, r)
	}
	return a
}

func (s *expectedWait) grow(slot int) {
	longer := make([]account, max(64, 2*len(s.accounts), slot+1))
	copy(longer, s.accounts)
	s.accounts = longer
}

// take puts a new report into an account. What was credited after the engine was asked stays: the report cannot know of it.
func (s *expectedWait) take(a *account, r *workers.Report) {
	a.report = r
	a.queued = r.QueuedTokens(s.meanPrefill)
	a.rate = s.throughput
	if told(r.Throughput) {
		a.rate = r.Throughput
	}
	a.pressure = s.pressure(r.Usage)
	a.credit, a.requests = 0, 0
	if !r.Asked.IsZero() {
		a.credit, a.requests = s.credits.since(a, r.Asked.Sub(s.began))
	}
	s.rescore(a)
}

// pressure grows beyond all bounds as the cache fills up; the clamp ends it at 999 times the weight.
func (s *expectedWait) pressure(usage float64) float64 {
	if math.IsNaN(usage) || math.IsInf(usage, 0) {
		return 0
	}
	k := min(max(usage, 0), 0.999)
	return s.weight * k / (1 - k)
}

func (s *expectedWait) rescore(a *account) {
	a.score = min((a.queued+float64(a.credit))/a.rate+a.pressure, math.MaxFloat64) // so that no sum of scores is not a number
	if a.rank = a.score; a.report.Vague || s.full(a) {
		a.rank = math.NaN()
	}
}

// charge credits a worker with a request that is being sent to it.
func (s *expectedWait) charge(w *workers.Worker, tokens int64) {
	a := s.account(w, w.Report())
	a.credit += tokens
	a.requests++
	s.credits.add(a, w.Slot(), tokens, s.clock().Sub(s.began))
	if a.report != nil {
		s.rescore(a)
	}
}

// forget drops what is known of a worker.
func (s *expectedWait) forget(w *workers.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone.add(w, s.clock())
	if slot := w.Slot(); slot < len(s.accounts) && s.accounts[slot].worker == w {
		s.accounts[slot] = account{}
	}
}
