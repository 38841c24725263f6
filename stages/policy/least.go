package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// leastOf is the place of the member of which least is true, of one of them if there are several; the list is not empty. With an
// explanation to fill, everybody is rated by it.
func leastOf(x *pipeline.Exchange, among workers.List, chance *Chance, what string, value func(*workers.Worker) int64) int {
	var least int64
	drawn := lot{chance: chance}
	for i, w := range among.Members() {
		v := value(w)
		if i == 0 || v < least {
			least = v
			drawn.restart(i)
		} else if v == least {
			drawn.join(i)
		}
		if x.Explain != nil {
			x.Explain.Rate(w, float64(v), pipeline.Part{Name: what, Value: float64(v)})
		}
	}
	return drawn.place
}

func leastInFlight(x *pipeline.Exchange, among workers.List, chance *Chance) int {
	return leastOf(x, among, chance, "in_flight", (*workers.Worker).InFlight)
}
