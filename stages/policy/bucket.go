package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// Bucket gives each prefill worker a range of request sizes, so that short prompts do not wait behind long ones. A size is the
// number of tokens, or of characters where there are none. The ranges follow what was asked for in the last s.BucketInterval: each
// worker's part adds up to about the same. A worker that has much more than another in that time (s.BalanceAbs, s.BalanceRel) is
// relieved: the request goes to the one that has least.
//
// It divides the work of prefill workers. Other workers get requests at random, which it says once. It looks at every candidate.
func Bucket(s Settings, log *slog.Logger) Policy {
	b := &bucket{
		interval: s.BucketInterval, abs: s.BalanceAbs, rel: s.BucketRel, clock: s.Clock, chance: s.Chance,
		log: telemetry.WithTarget(log, "smg::policies::bucket"), models: map[string]*portions{},
	}
	if b.interval <= 0 {
		b.interval = 5 * time.Second
	}
	if b.rel == 0 {
		b.rel = s.BalanceRel
	}
	if !(b.rel >= 1) {
		b.rel = 1
	}
	if b.clock == nil {
		b.clock = time.Now
	}
	return b
}

type bucket struct {
	interval time.Duration // of the window, and between two adjustments of the ranges
	abs      int64
	rel      float64
	clock    func() time.Time
	chance   *Chance
	log      *slog.Logger
	warn     sync.Once

	mu     sync.RWMutex
	models map[string]*portions // by model; "" are requests that name none
}

var _ Policy = (*bucket)(nil)

func (*bucket) Name() string { return "bucket" }

func (*bucket) Wants() pipeline.Want { return pipeline.WantText | pipeline.WantTokens }

// Forget drops what was sent to the worker, and the books of a model whose last worker it was.
func (b *bucket) Forget(w *workers.Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for model, own := range b.models {
		if own.forget(w) {
			delete(b.models, model)
		}
	}
}

func (b *bucket) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	if among.At(0).Type() != workers.Prefill {
		b.warn.Do(func() {
			b.log.Warn("policy bucket has no ranges for workers that are not prefill workers, it chooses at random", "model_id", x.Model)
		})
		return b.chance.intN(among.Len())
	}
	own := b.of(x.Model)
	own.mu.Lock()
	defer own.mu.Unlock()
	now, size := b.clock(), promptSize(&x.Prompt)
	b.prepare(x, own, among, now)
	imbalanced := own.imbalanced(among, b.abs, b.rel)
	i, path := -1, "range"
	if !imbalanced {
		i = own.owner(size, among)
	}
	if i < 0 {
		i, path = leastOf(x, among, b.chance, "size_in_window", own.loadOf), "least_loaded"
	} else {
		own.explain(x, i, among)
	}
	if !x.DryRun {
		own.add(among.At(i), size, now)
		b.tell(x, among.At(i), size, imbalanced, path)
	}
	return i
}

// prepare brings the books up to date: with the time, and with who serves the model.
func (b *bucket) prepare(x *pipeline.Exchange, own *portions, among workers.List, now time.Time) {
	own.purge(now.Add(-b.interval))
	if x.DryRun && len(own.members) > 0 {
		return
	}
	fleet := x.Pool
	if fleet.Len() == 0 {
		fleet = among
	}
	own.follow(fleet, now)
	if now.Sub(own.adjusted) < b.interval {
		return
	}
	own.adjusted = now
	before := ""
	if b.log.Enabled(context.Background(), slog.LevelInfo) {
		before = own.ranges.String()
	}
	if own.adjust() && before != "" {
		b.log.Info("bucket ranges adjusted", "model_id", x.Model, "before", before, "after", own.ranges.String())
	}
}

func (b *bucket) of(model string) *portions {
	b.mu.RLock()
	own := b.models[model]
	b.mu.RUnlock()
	if own != nil {
		return own
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if own = b.models[model]; own == nil {
		own = &portions{}
		b.models[model] = own
	}
	return own
}

func (b *bucket) tell(x *pipeline.Exchange, w *workers.Worker, size int64, imbalanced bool, path string) {
	if !b.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	b.log.LogAttrs(context.Background(), slog.LevelDebug, "bucket selection", slog.Bool("imbalanced", imbalanced),
		slog.String("path", path), slog.Int64("size", size), slog.String("worker", w.URL()), slog.String("model_id", x.Model))
}

// promptSize is the number of tokens, or of characters where there are none.
func promptSize(p *pipeline.RoutingPrompt) int64 {
	if p.Tokens != nil {
		return int64(len(p.Tokens))
	}
	return int64(utf8.RuneCountInString(p.Text))
}
