package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Assignment is how manual and sticky sessions choose a worker for a new key.
type Assignment string

// The assignment modes. Unset is random for manual and delegate for sticky sessions.
const (
	AssignUnset    Assignment = ""
	AssignRandom   Assignment = "random"    // anyone
	AssignMinLoad  Assignment = "min_load"  // one with fewest requests in flight
	AssignMinGroup Assignment = "min_group" // one with fewest routing keys in flight
	AssignDelegate Assignment = "delegate"  // as the configured policy does; under manual it is min_load
)

// choose is the place of a worker for a new key; the list is not empty.
func (a Assignment) choose(x *pipeline.Exchange, among workers.List, chance *Chance) int {
	switch a {
	case AssignMinLoad, AssignDelegate:
		return leastInFlight(x, among, chance)
	case AssignMinGroup:
		return leastOf(x, among, chance, "routing_keys", (*workers.Worker).ActiveKeys)
	}
	return chance.intN(among.Len())
}
