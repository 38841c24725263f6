package policy

import (
	"log/slog"
	"sync"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Passthrough always chooses the first worker: the policy for a gateway in front of one. When there are more it says so, once.
func Passthrough(log *slog.Logger) Policy { return &passthrough{log: log} }

type passthrough struct {
	stateless
	log  *slog.Logger
	warn sync.Once
}

var _ Policy = (*passthrough)(nil)

func (*passthrough) Name() string { return "passthrough" }

func (p *passthrough) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	if among.Len() > 1 {
		p.warn.Do(func() {
			p.log.Warn("policy passthrough uses the first worker alone", "worker_count", among.Len())
		})
	}
	pinTo(x, among.At(0), false)
	return 0
}
