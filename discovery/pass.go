package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/smg-go/smg/workers"
)

// pass compares what is wanted with what is registered, and submits the difference as jobs. It waits for none of them.
func (r *run) pass(ctx context.Context) {
	defer r.settings.OnPass()
	r.schedule.begin(time.Now()) // first: what changes from here on asks for another pass
	view := r.cordons.view()
	all, ok := r.source.Wanted()
	if !ok {
		return
	}
	r.schedule.saw()
	s := r.survey(all, view)
	p := decide(s)
	r.series.Discovered.Set(float64(len(s.wanted)))
	r.tell(&s, &p)
	began := time.Now()
	if r.submit(ctx, &p) > 0 {
		r.series.Sync.Observe(time.Since(began).Seconds())
	}
}

// survey gathers what a pass decides by. The jobs come before the registrations: one that ends meanwhile is in flight, and not one
// that has left nothing behind.
func (r *run) survey(all []Wanted, view uint64) situation {
	s := situation{
		owned: map[string][]registration{}, manual: map[string]bool{}, busy: r.enroller.Jobs().InFlight(),
	}
	claims := make(map[Claim]bool, len(all))
	for _, w := range all {
		claims[w.Claim] = true
	}
	r.cordons.review(func(c Claim) bool { return claims[c] }, s.busy, view)

	registered := map[Claim]bool{}
	var soonest time.Time
	for _, w := range r.registry.All() {
		claim, owned := r.dialect.claimOf(w)
		if !owned {
			s.manual[claim.Address] = true
			continue
		}
		registered[claim] = true
		until := r.heldUntil(w)
		s.owned[claim.Address] = append(s.owned[claim.Address], registration{w, claim.Owner, !until.IsZero()})
		if !until.IsZero() && (soonest.IsZero() || until.Before(soonest)) {
			soonest = until
		}
	}
	if !soonest.IsZero() {
		r.schedule.remind(soonest)
	}
	won, lost := award(all, func(c Claim) bool { return registered[c] })
	s.wanted = won
	r.warned.contests(r.settings.Log, lost)
	return s
}

// heldUntil is when a worker that has been cordoned may be removed at the soonest, if that is not yet; else zero.
func (r *run) heldUntil(w *workers.Worker) time.Time {
	since, cordoned := r.cordons.age(w)
	if until := since.Add(r.settings.Gather); cordoned && time.Now().Before(until) {
		return until
	}
	return time.Time{}
}

// tell logs what a pass is about to do.
func (r *run) tell(s *situation, p *plan) {
	r.warned.blocked(r.settings.Log, p.blocked)
	if len(p.removals)+len(p.additions) > 0 {
		r.settings.Log.Info(fmt.Sprintf("Reconciling workers: %d to add, %d to remove (%d desired)", len(p.additions), len(p.removals), len(s.wanted)))
	}
	r.settings.Log.Debug("Pass over the workers", "desired", len(s.wanted), "add", len(p.additions), "remove", len(p.removals),
		"in_flight", p.skipped, "held", p.held, "manual", p.blocked)
}

// submit hands the jobs over, and tells how many the queue has taken. It waits while that is full, and gives up when ctx ends.
func (r *run) submit(ctx context.Context, p *plan) (submitted int) {
	removing := make(map[string]bool, len(p.removals))
	for _, removal := range p.removals {
		removing[removal.address] = true
		err := r.remove(ctx, removal)
		if ctx.Err() != nil || errors.Is(err, workers.ErrClosed) {
			return submitted
		}
		if err == nil {
			submitted++
		}
	}
	gate := newTurnstile(r.enroller.Jobs())
	for _, w := range p.additions {
		if !gate.enter(ctx, w.Address) {
			return submitted
		}
		if !r.stillDue(w, removing[w.Address]) {
			continue
		}
		err := r.add(ctx, w)
		if ctx.Err() != nil || errors.Is(err, workers.ErrClosed) {
			return submitted
		}
		if err == nil {
			submitted++
		}
	}
	return submitted
}

// stillDue looks once more before a worker is added: with a full queue a pass lasts, and the world goes on. replacing tells that the
// job at its address is the removal that this pass has submitted itself.
func (r *run) stillDue(w Wanted, replacing bool) bool {
	if r.cordons.withdrawn(w.Claim) || !replacing && r.enroller.Jobs().Busy(w.Address) {
		return false
	}
	for _, other := range r.registry.ByAddress(w.Address) {
		if _, owned := r.dialect.claimOf(other); !owned {
			return false
		}
	}
	return true
}

func (r *run) remove(ctx context.Context, removal removal) error {
	r.settings.Log.Info("Removing worker " + r.dialect.removed(removal) + ": " + r.dialect.why)
	for _, t := range removal.targets {
		r.cordons.add(t.worker, time.Now()) // its job may have to wait
	}
	err := r.enroller.RemoveThese(ctx, removal.address, removal.guards(), func() { r.schedule.note(time.Now(), false) })
	switch {
	case err == nil:
		r.series.Deregistered.Inc()
	case ctx.Err() == nil && !errors.Is(err, workers.ErrClosed):
		r.settings.Metrics.RemoveFailures.Inc()
		r.settings.Log.Warn("The removal of a worker could not be submitted", "worker", removal.address, "error", err)
	}
	return err
}

func (r *run) add(ctx context.Context, w Wanted) error {
	r.settings.Log.Info("Registering worker " + r.dialect.adding(w))
	spec := r.dialect.marked(w)
	if spec.APIKey == "" {
		spec.APIKey = r.settings.APIKey
	}
	err := r.enroller.Upsert(ctx, spec)
	switch {
	case err == nil:
		r.series.Registered.Inc()
	case ctx.Err() == nil && !errors.Is(err, workers.ErrClosed):
		r.series.Refused.Inc()
		r.settings.Metrics.AddFailures.Inc()
		r.settings.Log.Warn("The registration of a worker could not be submitted", "worker", w.Address, "error", err)
	}
	return err
}
