package policy

import (
	"context"
	"log/slog"
	"math"
	"sync"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// LeastWork chooses the worker where a request means least work for everybody: the tokens that wait there already, those of its own
// prompt that the worker would have to compute, more heavily the busier the fleet is, and the requests that the worker has in flight.
// In tokens, the lowest of
//
//	Q + F·u + 320·n + 1600·max(0, n + 1 − R),   F = 1 + 1/(1 − min(ρ, 0.9))
//
// wins: Q waits for its first byte at the worker; u are tokens of the prompt that are not in its cache; n are requests in flight; R is
// how many it runs at once, if its report or its label max_running_requests or max_num_seqs says; ρ is the share of time in which the
// candidates have work that waits. It has no threshold to set, and needs no load reports: what it knows is what was sent and what
// has come back. What workers hold it remembers for each as far as its KV cache reaches, in pages of s.BlockSize tokens.
//
// It reads prompts, at the speed of memory, and looks at each candidate once, under a lock. Its books on the workers are those of all
// least_work policies of a [Set].
func LeastWork(s Settings, log *slog.Logger) Policy {
	if s.BlockSize <= 0 {
		s.BlockSize = 16
	}
	if s.memory == nil {
		s.memory = newIndexMemory(s.IndexMemory)
	}
	if s.work == nil {
		s.work = newWorkBooks(s.Clock)
	}
	return &leastWork{
		books: s.work, index: newWorkIndex(s.memory, min(s.BlockSize, maxPage)), chance: s.Chance,
		log: telemetry.WithTarget(log, "smg::policies::least_work"), spare: sync.Pool{New: func() any { return new(workScratch) }},
	}
}

type leastWork struct {
	books  *workBooks
	index  *workIndex
	chance *Chance
	log    *slog.Logger
	spare  sync.Pool // of scratch
}

var (
	_ Policy           = (*leastWork)(nil)
	_ Booked           = (*leastWork)(nil)
	_ pipeline.Watcher = (*leastWork)(nil)
)

func (*leastWork) Name() string { return "least_work" }

func (*leastWork) Wants() pipeline.Want { return pipeline.WantText | pipeline.WantTokens }

func (p *leastWork) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	s := p.spare.Get().(*workScratch)
	defer p.spare.Put(s)
	s.prompt.read(x, p.index.pageTokens) // before any lock: it takes as long as the prompt is
	v, b := p.choose(x, among, s)
	if x.DryRun {
		return v.place
	}
	*openBooking(x) = b
	if b.streamed {
		x.Watch(p)
	}
	p.tell(x.Model, among.At(v.place), s, &v)
	return v.place
}

// choose judges, books and records in the same critical section, so that two requests at once see each other.
func (p *leastWork) choose(x *pipeline.Exchange, among workers.List, s *workScratch) (verdict, booking) {
	p.index.mu.Lock()
	defer p.index.mu.Unlock()
	defer s.reset()
	p.index.match(s)
	v, b := p.book(x, among, s)
	if x.DryRun {
		return v, b
	}
	if b.ticket.worker == b.worker { // else it was removed or replaced a moment ago, and would hold its pages for good
		b.placed = p.index.record(s, b.worker)
	}
	return v, b
}

// book judges and books.
func (p *leastWork) book(x *pipeline.Exchange, among workers.List, s *workScratch) (verdict, booking) {
	p.books.mu.Lock()
	defer p.books.mu.Unlock()
	v := p.judge(among, s)
	if x.Explain != nil {
		p.explain(x.Explain, among, s, &v)
	}
	if x.DryRun {
		return v, booking{}
	}
	b := booking{owner: p, worker: among.At(v.place), streamed: x.Body.Stream && !x.Body.Streamed}
	b.ticket = p.books.book(b.worker, v.misses, b.streamed, v.at)
	return v, b
}

func (p *leastWork) tell(model string, w *workers.Worker, s *workScratch, v *verdict) {
	if !p.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	p.log.LogAttrs(context.Background(), slog.LevelDebug, "least_work selection",
		slog.String("policy", "least_work"), slog.String("worker", w.URL()), slog.String("model_id", model), slog.Float64("score", math.Round(v.score*1e4)/1e4),
		slog.Int64("tokens", s.prompt.tokens), slog.Int64("computed", v.misses), slog.Int64("in_flight", w.InFlight()))
}

// Head is of no interest: an engine sends it before it has computed anything.
func (*leastWork) Head(*pipeline.Exchange, *pipeline.Leg, int) {}

// FirstByte tells that the worker has computed the prompt.
func (p *leastWork) FirstByte(x *pipeline.Exchange, leg *pipeline.Leg) {
	for i := range bookings.Fill(x) {
		if b := &bookings.Fill(x)[i]; b.owner == p && b.worker == leg.Worker {
			p.books.begun(&b.ticket)
		}
	}
}

// Ended closes what Select has booked. What the worker would hold now, if it had not failed, is taken back.
func (p *leastWork) Ended(x *pipeline.Exchange) {
	all := bookings.Fill(x)
	for i := range all {
		b := &all[i]
		if b.owner != p {
			continue
		}
		p.books.over(&b.ticket)
		if !answered(x, b.worker) {
			p.index.mu.Lock()
			p.index.takeBack(b.placed)
			p.index.mu.Unlock()
		}
		*b = booking{}
	}
}

// answered tells whether the attempt has brought a head from the worker that means success.
func answered(x *pipeline.Exchange, w *workers.Worker) bool {
	for i := range x.Legs.Len() {
		if leg := x.Legs.At(i); leg.Worker == w {
			return leg.Status >= 200 && leg.Status < 300
		}
	}
	return false
}

func (p *leastWork) Forget(w *workers.Worker) {
	p.books.forget(w) // first: from now on nothing is recorded for it
	p.index.mu.Lock()
	defer p.index.mu.Unlock()
	p.index.forget(w)
}
