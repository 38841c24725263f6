package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Random chooses uniformly. It reads nothing, keeps nothing and costs a random number.
func Random() Policy { return random{} }

type random struct {
	stateless
	chance *Chance
}

var _ Policy = random{}

func (random) Name() string { return "random" }

func (r random) Select(_ *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		return -1
	}
	return r.chance.intN(among.Len())
}
