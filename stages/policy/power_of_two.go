package policy

import (
	"log/slog"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// PowerOfTwo samples two different candidates and chooses the one at which a request would wait less, as least_load sees it, with
// the built-in tuning and no cap. The two are compared with each other alone. It costs two loads, however many workers there are.
func PowerOfTwo(s Settings, log *slog.Logger) Policy {
	scorer := newBuiltInWait(s.Clock)
	scorer.chance = s.Chance
	return &powerOfTwo{newByWait("power_of_two", scorer, log)}
}

type powerOfTwo struct{ byWait }

var _ Policy = (*powerOfTwo)(nil)

func (p *powerOfTwo) Select(x *pipeline.Exchange, among workers.List) int {
	n := among.Len()
	if n < 2 {
		return p.choose(x, among, nil) // the only one is credited too: another may come back before its next report
	}
	first := p.scorer.chance.intN(n)
	pair := [2]int{first, (first + 1 + p.scorer.chance.intN(n-1)) % n}
	return p.choose(x, among, pair[:])
}
