package discovery

import (
	"cmp"
	"slices"
)

// contest is an address that two claimants want at once. They are named by their keys, the winner first.
type contest struct{ address, winner, loser string }

// award gives each address to one of those that want it: to the one whose worker is registered there already, else to the newest,
// else to the one with the greater key. It tells of those that lost.
func award(all []Wanted, registered func(Claim) bool) (won map[string]Wanted, lost []contest) {
	won = make(map[string]Wanted, len(all))
	var contested map[string][]Wanted
	for _, w := range all {
		if first, taken := won[w.Address]; taken {
			if contested == nil {
				contested = map[string][]Wanted{}
			}
			if len(contested[w.Address]) == 0 {
				contested[w.Address] = []Wanted{first}
			}
			contested[w.Address] = append(contested[w.Address], w)
			continue
		}
		won[w.Address] = w
	}
	for address, claimants := range contested {
		slices.SortFunc(claimants, func(a, b Wanted) int {
			return cmp.Or(trueFirst(registered(a.Claim), registered(b.Claim)), b.Created.Compare(a.Created), cmp.Compare(b.Key, a.Key))
		})
		won[address] = claimants[0]
		for _, l := range claimants[1:] {
			lost = append(lost, contest{address, claimants[0].Key, l.Key})
		}
	}
	return won, lost
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
