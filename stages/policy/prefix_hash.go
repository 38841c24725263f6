package policy

import (
	"context"
	"log/slog"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// PrefixHash sends prompts with the same head to the same worker, on every gateway that knows the same workers, as long as that one
// has not many more requests in flight than the others. The head is the first s.PrefixTokens tokens, or 4 times as many characters;
// with s.Boundaries, the longest that the prompt reaches, and if that one's worker has too many, the next shorter. A routing-key
// header takes the place of the prompt.
//
// It keeps nothing. No body is read for its sake: a request whose body is streamed, and that has neither key nor token ids in its
// head, goes to a worker with least in flight. It costs one hash of the head, and a look at what each candidate has in flight.
func PrefixHash(s Settings, log *slog.Logger) Policy {
	s.roster.keepRings()
	p := &prefixHash{
		roster: s.roster, chance: s.Chance, log: telemetry.WithTarget(log, "smg::policies::prefix_hash"),
		heads: heads{tokens: s.PrefixTokens, boundaries: s.Boundaries}, factor: s.PrefixLoadFactor, abs: float64(s.PrefixBalanceAbs),
	}
	if p.tokens < 1 {
		p.tokens = 256
	}
	if !(p.factor >= 1) {
		p.factor = 1.25
	}
	counters := s.counted().PrefixHash
	p.hit, p.walk = newDecision(counters, "ring_hit"), newDecision(counters, "load_balance_walk")
	p.ringless, p.keyless = newDecision(counters, "fallback_least_load"), newDecision(counters, "no_routing_key")
	p.nobody = newDecision(counters, "no_healthy_workers")
	return p
}

type prefixHash struct {
	stateless
	heads
	roster *roster
	chance *Chance
	log    *slog.Logger
	factor float64 // multiple of the mean that a worker may have in flight
	abs    float64 // requests above the mean that it may have, if that is more

	hit, walk, ringless, keyless, nobody *decision
}

var _ Policy = (*prefixHash)(nil)

func (*prefixHash) Name() string { return "prefix_hash" }

func (*prefixHash) Wants() pipeline.Want { return pipeline.WantTextIfRead | pipeline.WantTokens }

func (p *prefixHash) Select(x *pipeline.Exchange, among workers.List) int {
	i, level, how := p.choose(x, among)
	how.count(x)
	if !x.DryRun && p.log.Enabled(context.Background(), slog.LevelDebug) {
		chosen := "none"
		if i >= 0 {
			chosen = among.At(i).URL()
		}
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "Prefix-hash selection", slog.String("branch", how.name),
			slog.Int("level", level), slog.String("worker", chosen), slog.String("model_id", x.Model))
	}
	return i
}

// choose is the place of the chosen one, the boundary that led to it (0 for none), and how it was chosen.
func (p *prefixHash) choose(x *pipeline.Exchange, among workers.List) (i, level int, how *decision) {
	if among.Len() == 0 {
		return -1, 0, p.nobody
	}
	head, found := p.deepest(x)
	if !found {
		return leastInFlight(x, among, p.chance), 0, p.keyless
	}
	on := p.roster.ring(x.Model)
	if on == nil {
		return leastInFlight(x, among, p.chance), 0, p.ringless
	}
	for bound := p.bound(among); found; head, found = p.shorter(x, head) {
		i := on.find(head.position(x), among)
		if i < 0 { // none of the candidates is on the ring yet
			return leastInFlight(x, among, p.chance), 0, p.ringless
		}
		if bound.allows(among.At(i)) {
			p.explain(x, on, head, among)
			return i, head.level, p.hit
		}
	}
	return leastInFlight(x, among, p.chance), 0, p.walk // who has least is not above the mean
}

func (p *prefixHash) explain(x *pipeline.Exchange, on *ring, h promptHead, among workers.List) {
	if x.Explain != nil {
		on.explain(x.Explain, h.position(x), among)
	}
}

// loadBound is how many requests a worker may have in flight.
type loadBound struct {
	most float64
	idle bool // nobody has any
}

func (p *prefixHash) bound(among workers.List) loadBound {
	var sum int64
	for _, w := range among.Members() {
		sum += w.InFlight()
	}
	mean := float64(sum+1) / float64(among.Len())
	return loadBound{max(mean*p.factor, mean+p.abs), sum == 0}
}

func (b loadBound) allows(w *workers.Worker) bool { return b.idle || float64(w.InFlight()) <= b.most }
