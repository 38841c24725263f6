package policy

import (
	"context"
	"log/slog"
	"math"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// byWait is what the policies have in common that choose by expected wait and by nothing else.
type byWait struct {
	name   string
	scorer *expectedWait
	log    *slog.Logger
}

func newByWait(name string, scorer *expectedWait, log *slog.Logger) byWait {
	return byWait{name, scorer, telemetry.WithTarget(log, "smg::policies::"+name)}
}

func (p *byWait) Name() string { return p.name }

// Wants are load reports, and the number of tokens where the client sends ids; that alone makes nobody read a body.
func (*byWait) Wants() pipeline.Want { return pipeline.WantLoads | pipeline.WantTokens }

func (p *byWait) Forget(w *workers.Worker) { p.scorer.forget(w) }

// choose is the place of the candidate that waits least among those at the given places; nil is all.
func (p *byWait) choose(x *pipeline.Exchange, among workers.List, members []int) int {
	place, score := p.scorer.choose(x, among, members, int64(len(x.Prompt.Tokens)), 0)
	if place >= 0 && !x.DryRun && p.log.Enabled(context.Background(), slog.LevelDebug) {
		w := among.At(place)
		p.log.LogAttrs(context.Background(), slog.LevelDebug, p.name+" selection",
			slog.String("policy", p.name), slog.String("worker", w.URL()), slog.String("model_id", x.Model),
			slog.Float64("score", math.Round(score*1e4)/1e4), slog.Int64("in_flight", w.InFlight()))
	}
	return place
}
