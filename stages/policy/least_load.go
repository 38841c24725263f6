package policy

import (
	"fmt"
	"log/slog"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// LeastLoad chooses, of all candidates, the one at which a request would wait least, by what the workers last reported and what was
// sent to them since. It suits prompts of mixed sizes where it does not matter which worker has seen a prompt before. Where a
// request's tokens are not known it counts as s.MeanPrefillTokens.
//
// With s.MaxWaiting, a worker at which that many requests wait is not chosen: with all of them there, nobody is, and the answer is
// 503. A worker without a report is never left out. It looks at each candidate once, under a lock.
func LeastLoad(s Settings, log *slog.Logger) Policy {
	scorer := newExpectedWait(s.KVPressureWeight, s.DefaultThroughput, s.MeanPrefillTokens, s.MaxWaiting, s.Clock)
	scorer.chance = s.Chance
	return &leastLoad{newByWait("least_load", scorer, log)}
}

type leastLoad struct{ byWait }

var _ Reasoned = (*leastLoad)(nil)

func (p *leastLoad) Select(x *pipeline.Exchange, among workers.List) int {
	return p.choose(x, among, nil)
}

// Reason is the cap: there is no other for choosing nobody.
func (p *leastLoad) Reason(x *pipeline.Exchange) string {
	return pipeline.Unavailable(x, fmt.Sprintf("at the waiting cap of %d: %d", p.scorer.maxWaiting, x.Candidates.Len()))
}
