package policy

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// CacheAware sends a request where its prompt's beginning was sent before, so that the engine finds it in its cache, unless that
// worker is much busier than the rest.
//
// Of the candidates that have more than s.CacheThreshold of the prompt it takes those that have most of it and are not hot; a worker
// is hot that has more requests in flight than the mean times s.BalanceRel and than the mean plus s.BalanceAbs. Among them, or among
// all that are not hot if there are none, or among all if nobody has enough of the prompt, it chooses by expected wait. A prompt that
// all have but some that are as far below the mean as a hot worker is above goes to one of these, unless one that has it is below the
// mean itself.
//
// The choice is recorded at once, so that followers of a prompt find it while it is being computed; if the attempt ends without a
// success head, what it newly recorded is taken back.
//
// With s.OverloadTokenUsage or s.BalanceTokenUsage below 1, a fleet whose KV caches are that full, or that unevenly full, is served
// by expected wait alone. It costs one pass over the prompt, and a look at each candidate.
func CacheAware(s Settings, log *slog.Logger) Policy {
	if s.BalanceRel < 1 {
		s.BalanceRel = 1
	}
	p := &cacheAware{
		Settings: s, index: newPrefixIndex(s), scorer: newBuiltInWait(s.Clock),
		log: telemetry.WithTarget(log, "smg::policies::cache_aware"),
	}
	p.scorer.chance = s.Chance
	p.scratch.New = func() any { return new(affinity) }
	return p
}

type cacheAware struct {
	Settings
	index   *prefixIndex
	scorer  *expectedWait
	log     *slog.Logger
	scratch sync.Pool
}

var (
	_ Booked = (*cacheAware)(nil)
	_ Kept   = (*cacheAware)(nil)
)

// branch is how a decision came about.
type branch string

const (
	treeMatch   branch = "tree_match"
	spill       branch = "spill"
	fallback    branch = "expected_wait_fallback"
	kvPressured branch = "kv_pressure_expected_wait"
)

const unknownModel = "unknown" // stands for the model of requests that name none

func (*cacheAware) Name() string { return "cache_aware" }

func (*cacheAware) Wants() pipeline.Want {
	return pipeline.WantText | pipeline.WantTokens | pipeline.WantLoads
}

// cacheReceipt is what the current attempt has recorded.
var cacheReceipt = pipeline.NewFact[receipt]("cache_aware_receipt")

func (p *cacheAware) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	v := p.index.look(modelKey(x, among), &x.Prompt)
	defer v.close()
	i, how, ratio := p.choose(x, among, v)
	if i < 0 || x.DryRun {
		return i
	}
	if v.key != "" {
		*cacheReceipt.Fill(x) = p.index.record(v, among.At(i))
	}
	p.count(how, ratio)
	p.tell(how, ratio, v.name.model, among.At(i))
	return i
}

// modelKey is the model whose trees a request uses. One that names no model shares the trees of the only model there is.
func modelKey(x *pipeline.Exchange, among workers.List) string {
	if x.Model != "" {
		return x.Model
	}
	model := among.At(0).Model()
	if model == "" || among.Any(func(w *workers.Worker) bool { return w.Model() != model }) {
		return unknownModel
	}
	return model
}

// choose is the decision; it records nothing in the index.
func (p *cacheAware) choose(x *pipeline.Exchange, among workers.List, v *visit) (place int, how branch, ratio float64) {
	if p.pressed(among) {
		return p.scorer.pick(x, among, nil, int64(len(x.Prompt.Tokens)), 0), kvPressured, 0
	}
	a := p.scratch.Get().(*affinity)
	defer p.scratch.Put(a)
	how = fallback
	held := 0.0 // share of the prompt that need not be computed
	if a.find(v, among, p.CacheThreshold) {
		g := p.gate(a, among)
		switch {
		case a.widen(g, among):
			how = spill
		case a.group(g, p.preference(v)):
			how = treeMatch
			if !p.CountHeld {
				held = a.ratio
			}
		default:
			how = spill
			a.cool(g, among)
		}
	}
	place = p.pick(x, among, a, v, held)
	if how == spill && place >= 0 && a.holds(place) { // all are hot
		how = treeMatch
	}
	return place, how, a.ratio
}

// pick chooses by expected wait among the members that were found, all if these are nil, and explains why the others were not compared.
func (p *cacheAware) pick(x *pipeline.Exchange, among workers.List, a *affinity, v *visit, held float64) int {
	before := 0
	if x.Explain != nil {
		before = len(x.Explain.Scores)
	}
	place := p.scorer.pick(x, among, a.members, int64(len(x.Prompt.Tokens)), held)
	if x.Explain != nil {
		a.explain(x.Explain, before, among, v)
	}
	return place
}

// gate looks at all candidates only if a holder has so much in flight that it may be hot, or others cold.
func (p *cacheAware) gate(a *affinity, among workers.List) gate {
	if !slices.ContainsFunc(a.holders, func(h prefixHolder) bool { return h.worker.InFlight() > p.BalanceAbs }) {
		return gate{factor: math.Inf(1), number: math.Inf(1)}
	}
	return newGate(among, p.BalanceRel, p.BalanceAbs)
}

func (p *cacheAware) preference(v *visit) preference {
	return preference{p.OverlapDecay, p.SelectionTemperature, p.index.page, max(1, v.input/p.index.page), p.Chance}
}

// pressed tells whether the KV caches of the candidates are so full, or so unevenly full, that affinity has to stand back. Those
// that do not report play no part.
func (p *cacheAware) pressed(among workers.List) bool {
	ceiling, spread := threshold(p.OverloadTokenUsage), threshold(p.BalanceTokenUsage)
	if math.IsInf(ceiling, 1) && math.IsInf(spread, 1) {
		return false
	}
	hottest, coldest := math.Inf(-1), math.Inf(1)
	for _, w := range among.Members() {
		if r := w.Report(); r != nil && r.UsageKnown {
			hottest, coldest = max(hottest, r.Usage), min(coldest, r.Usage)
		}
	}
	return hottest > ceiling || hottest-coldest > spread
}

// threshold is a share of a KV cache that nothing exceeds if it is off: 1 and more, or not set.
func threshold(share float64) float64 {
	if share > 0 && share < 1 {
		return share
	}
	return math.Inf(1)
}

func (p *cacheAware) count(how branch, ratio float64) {
	if p.Metrics == nil || how == kvPressured {
		return
	}
	p.Metrics.CacheAware[string(how)].Inc()
	p.Metrics.MatchRatio.Observe(ratio)
}

// tell writes the one debug line of a decision.
func (p *cacheAware) tell(how branch, ratio float64, model string, w *workers.Worker) {
	ctx := context.Background()
	if !p.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	fields := []slog.Attr{slog.String("branch", string(how)), slog.String("worker", w.URL()), slog.String("model_id", model)}
	if how != kvPressured {
		fields = append(fields, slog.String("index", "tree"), slog.Float64("matched_ratio", ratio), slog.Float64("threshold", p.CacheThreshold))
	}
	p.log.LogAttrs(ctx, slog.LevelDebug, "Cache-aware selection", fields...)
}

// Ended takes back what the attempt has newly recorded if its worker never said that it would answer.
func (p *cacheAware) Ended(x *pipeline.Exchange) {
	r, ok := cacheReceipt.Lookup(x)
	if !ok || r.tree == nil {
		return
	}
	cacheReceipt.Set(x, receipt{})
	if leg := x.Legs.Last(); leg == nil || leg.Status < 200 || leg.Status > 299 {
		p.index.takeBack(&x.Prompt, r)
	}
}

// Upkeep evicts what is too much.
func (p *cacheAware) Upkeep(now time.Time) { p.index.upkeep(now, p.Metrics) }

func (p *cacheAware) Forget(w *workers.Worker) {
	p.index.forget(w)
	p.scorer.forget(w)
}
