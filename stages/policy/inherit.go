package policy

import "github.com/smg-go/smg/workers"

// inheriting is a policy whose books about a worker go over to the worker's next revision: the engine is the same one.
type inheriting interface {
	inherit(was, now *workers.Worker)
}

func (p *cacheAware) inherit(was, now *workers.Worker) { p.index.inherit(was, now) }

func (p *leastWork) inherit(was, now *workers.Worker) {
	p.index.mu.Lock()
	defer p.index.mu.Unlock()
	p.index.inherit(was, now)
}

// inside is the policy that sessions stand in front of, if any do.
func inside(p Policy) Policy {
	if in, ok := p.(*sticky); ok {
		return in.Policy
	}
	return p
}

// bequeath gives what the policies know of a worker to its next revision: the requests that it has, and the prompts that it holds if it
// serves the same model.
func (s *Set) bequeath(was, now *workers.Worker) {
	s.settings.work.inherit(was, now)
	if was.Model() != now.Model() {
		return
	}
	own := s.For(now.Model())
	for _, p := range []Policy{s.standard, own} {
		if heir, ok := inside(p).(inheriting); ok {
			heir.inherit(was, now)
		}
		if own == s.standard {
			return
		}
	}
}

// inherit lets a worker's next revision have what is known of it.
func (x *prefixIndex) inherit(was, now *workers.Worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range *x.trees.Load() {
		t.tenants.rename(was, now)
	}
}

// rename makes the tenant of a worker that of its next revision.
func (y *tenancy) rename(was, now *workers.Worker) {
	who := y.of(was)
	if who == nil {
		return
	}
	who.worker.Store(now)
	y.live.Store(now, who)
	y.live.Delete(was)
}
