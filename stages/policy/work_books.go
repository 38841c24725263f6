package policy

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/smg-go/smg/workers"
)

// The constants of least_work, in tokens unless they say otherwise. What capacity depends on them, as the simulation shows it:
//
//	320   for each request in flight        130 to 1,300 within 6 %; 0 loses 7 % on a hot prefix
//	1600  for each one that must queue      800 to 6,400 equal
//	0.9   the cap of the busy share         0.7 to 0.9 equal
//	30 s  over which the share is taken     10 to 100 s equal within 2 %
const (
	inFlightCost  = 320
	overLimitCost = 1600
	busyCap       = 0.9
	busyMemory    = 30.0   // seconds
	drainRate     = 12_000 // tokens a second, of a request that shows no first byte
)

// workBooks are the books of least_work on the workers of a process: whichever policy has sent them work, it is there. They change
// with what happens to requests and with the clock, and with nothing else.
type workBooks struct {
	clock func() time.Time

	mu      sync.Mutex
	base    time.Time // seconds in ledgers are from here; it moves on, so that they stay small
	ledgers []ledger  // by slot
	gone    departed
	drains  uint64 // numbers drains
}

// ledger is the book on one worker. What a choice among thousands reads of them all is here, a cache line of it.
//
// A share of busy time that is taken exponentially over the past moves towards 1 while the worker is busy and towards 0 while it is
// not: it is busy + deviation·exp(−t/30 s) at the second t, with a deviation that changes only when the worker turns busy or idle.
// So the sum over the workers needs one exponential.
type ledger struct {
	worker    *workers.Worker // its latest revision
	report    *workers.Report // the last one that was read
	fixed     float64         // tokens: what the worker has to do, but for the prompt in question: fixed − slope·t
	slope     float64         // tokens a second
	due       float64         // second at which the next drain is empty
	deviation float64
	busy      float64 // 1 or 0: whether work is queued
	*entries
}

// entries are what the rest of a ledger is reckoned from. A worker that is removed and comes back has new ones: a ticket that is of
// others is void.
type entries struct {
	queued   int64 // tokens without a first byte, of streamed answers
	inFlight int64 // requests
	limit    int64 // requests that the worker runs at once; 0 is unknown
	draining []drain
}

// drain is the queued work of a request whose first byte is not seen: it flows off by itself.
type drain struct {
	number uint64
	tokens float64
	start  float64 // second
}

func (d *drain) end() float64 { return d.start + d.tokens/drainRate }

// ticket is what the books have of one request; the zero ticket is void.
type ticket struct {
	worker  *workers.Worker
	entries *entries
	tokens  int64  // that the worker computes
	number  uint64 // of its drain; 0: it waits for a first byte
	queued  bool
}

func newWorkBooks(clock func() time.Time) *workBooks {
	if clock == nil {
		clock = time.Now
	}
	return &workBooks{clock: clock, base: clock()}
}

// known is the book on a worker if there is one, and nothing new in its report; else nil. The lock is held, here and below.
func (b *workBooks) known(w *workers.Worker) *ledger {
	if slot := w.Slot(); slot < len(b.ledgers) {
		if l := &b.ledgers[slot]; l.worker == w && l.report == w.Report() {
			return l
		}
	}
	return nil
}

// ledger is the book on a worker, opened if it is new, with what its report says of its limit. Who asks for the book on a worker that
// was removed gets an empty one that is not kept.
func (b *workBooks) ledger(w *workers.Worker) *ledger {
	slot := w.Slot()
	if slot >= len(b.ledgers) {
		longer := make([]ledger, max(64, 2*len(b.ledgers), slot+1))
		copy(longer, b.ledgers)
		b.ledgers = longer
	}
	l := &b.ledgers[slot]
	same := sameRegistration(l.worker, w)
	if !same && b.gone.has(w) {
		l = new(ledger)
	}
	switch {
	case !same:
		*l = ledger{worker: w, due: math.Inf(1), entries: &entries{limit: labelledLimit(w)}} // the slot was another worker's before
	case l.worker.Revision() > w.Revision():
		return l
	case l.worker != w:
		l.succeed(w)
	}
	if r := w.Report(); r != nil && r != l.report {
		l.report = r
		if r.RunningLimit > 0 {
			l.limit = r.RunningLimit
		}
		l.price()
	}
	return l
}

// succeed makes the book that of the worker's next revision: the engine is the same, and so are the requests that it has.
func (l *ledger) succeed(w *workers.Worker) {
	if l.worker = w; l.report == nil || l.report.RunningLimit <= 0 { // what a report said of the limit stays until the next one
		l.limit = labelledLimit(w)
		l.price()
	}
}

// inherit lets a worker's next revision have its book.
func (b *workBooks) inherit(was, now *workers.Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot := was.Slot(); slot < len(b.ledgers) && b.ledgers[slot].worker == was {
		b.ledger(now)
	}
}

// labelledLimit is how many requests a worker runs at once, as its labels say; 0 if they do not.
func labelledLimit(w *workers.Worker) int64 {
	for _, label := range []string{"max_running_requests", "max_num_seqs"} {
		if n, err := strconv.ParseInt(w.Spec().Labels[label], 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// now is the second that it is.
func (b *workBooks) now() float64 {
	now := b.clock().Sub(b.base).Seconds()
	if now > 20*busyMemory { // the deviations have lost all digits that count
		b.rebase(now)
		return 0
	}
	return now
}

// rebase makes the second now the second 0.
func (b *workBooks) rebase(now float64) {
	for i := range b.ledgers {
		l := &b.ledgers[i]
		if l.worker == nil {
			continue
		}
		l.settle(now)
		l.deviation *= math.Exp(-now / busyMemory)
		for k := range l.draining {
			l.draining[k].start -= now
		}
		l.price()
	}
	b.base = b.clock()
}

// book writes a choice down. The ticket is void if the worker was removed.
func (b *workBooks) book(w *workers.Worker, tokens int64, streamed bool, now float64) ticket {
	l := b.ledger(w)
	if l != &b.ledgers[w.Slot()] {
		return ticket{}
	}
	t := ticket{worker: l.worker, entries: l.entries, tokens: tokens, queued: true}
	l.inFlight++
	if streamed {
		l.queued += tokens
	} else {
		b.drains++
		t.number = b.drains
		l.draining = append(l.draining, drain{t.number, float64(tokens), now})
	}
	l.turn(1, now)
	l.price()
	return t
}

// of is the ledger that a ticket is of, settled; nil if the worker was removed since.
func (b *workBooks) of(t *ticket, now float64) *ledger {
	if t.worker == nil {
		return nil
	}
	slot := t.worker.Slot()
	if slot >= len(b.ledgers) || b.ledgers[slot].entries != t.entries {
		return nil
	}
	l := &b.ledgers[slot]
	l.settle(now)
	return l
}

// begun takes a request's work off the queue: its first byte has come. Once is enough, more does nothing.
func (b *workBooks) begun(t *ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if l := b.of(t, now); l != nil {
		l.unqueue(t, now)
		l.price()
	}
}

// over closes a ticket.
func (b *workBooks) over(t *ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if l := b.of(t, now); l != nil {
		l.unqueue(t, now)
		l.inFlight--
		l.price()
	}
	*t = ticket{}
}

// forget drops the book on a worker; tickets of it are void.
func (b *workBooks) forget(w *workers.Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone.add(w, b.clock())
	if slot := w.Slot(); slot < len(b.ledgers) && b.ledgers[slot].worker == w {
		b.ledgers[slot] = ledger{}
	}
}

// unqueue takes a ticket's work off.
func (l *ledger) unqueue(t *ticket, now float64) {
	if !t.queued {
		return
	}
	t.queued = false
	if t.number == 0 {
		l.queued -= t.tokens
	} else {
		l.draining = slices.DeleteFunc(l.draining, func(d drain) bool { return d.number == t.number })
	}
	if l.idle() {
		l.turn(0, now)
	}
}

func (l *ledger) idle() bool { return l.queued == 0 && len(l.draining) == 0 }

// settle drops the drains that are empty by now.
func (l *ledger) settle(now float64) {
	if now < l.due {
		return // nothing has run empty
	}
	last := 0.0
	l.draining = slices.DeleteFunc(l.draining, func(d drain) bool {
		if d.end() > now {
			return false
		}
		last = max(last, d.end())
		return true
	})
	if l.idle() {
		l.turn(0, last)
	}
	l.price()
}

// turn makes the worker busy (1) or idle (0) from a second on.
func (l *ledger) turn(busy, now float64) {
	if l.busy != busy {
		grown := math.Exp(now / busyMemory)
		l.deviation = (l.busy + l.deviation/grown - busy) * grown
		l.busy = busy
	}
}

// share is the worker's share of busy time.
func (l *ledger) share(now float64) float64 { return l.busy + l.deviation*math.Exp(-now/busyMemory) }

// price brings up to date what choices read.
func (l *ledger) price() {
	l.fixed = float64(l.queued) + inFlightCost*float64(l.inFlight)
	if l.limit > 0 {
		l.fixed += overLimitCost * float64(max(0, l.inFlight+1-l.limit))
	}
	l.slope, l.due = 0, math.Inf(1)
	for i := range l.draining {
		d := &l.draining[i]
		l.fixed += d.tokens + drainRate*d.start
		l.slope += drainRate
		l.due = min(l.due, d.end())
	}
}

// tokens is Q: the queued work of the worker.
func (l *ledger) tokens(now float64) float64 {
	sum := float64(l.queued)
	for i := range l.draining {
		sum += max(0, l.draining[i].tokens-drainRate*(now-l.draining[i].start))
	}
	return sum
}
