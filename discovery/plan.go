package discovery

import (
	"maps"
	"slices"

	"github.com/smg-go/smg/workers"
)

// situation is all that a pass decides by.
type situation struct {
	wanted map[string]Wanted         // by address: who has won it
	owned  map[string][]registration // by address: of the source's own workers, every scheme and rank
	manual map[string]bool           // addresses at which workers are registered that the source does not own
	busy   map[string]bool           // addresses at which a job waits or runs
}

// registration is one registered worker that the source owns.
type registration struct {
	worker *workers.Worker
	owner  string
	held   bool // it has been cordoned too short a time ago to be removed
}

// plan is what a pass does, in this order.
type plan struct {
	removals  []removal // sorted by address
	additions []Wanted  // sorted by address; one at the address of a removal is queued behind it

	blocked []string // addresses that somebody else's worker has
	skipped []string // addresses at which a job is in flight
	held    []string // addresses that are left for a pass after the hold
}

// removal is the one job that takes workers at an address out.
type removal struct {
	address string
	targets []registration
}

// guards pin a removal to what has been seen: what is replaced meanwhile stays, and the next pass judges it.
func (r *removal) guards() []workers.Guard {
	guards := make([]workers.Guard, len(r.targets))
	for i, t := range r.targets {
		guards[i] = workers.PinTo(t.worker)
	}
	return guards
}

// decide compares what is wanted with what there is, one address after the other. It remembers nothing: whatever fails, or was
// missed, is simply still different the next time.
func decide(s situation) plan {
	var p plan
	for _, address := range s.addresses() {
		if s.busy[address] {
			p.skipped = append(p.skipped, address)
			continue
		}
		w, wanted := s.wanted[address]
		stale := s.stale(address)
		if slices.ContainsFunc(stale, func(r registration) bool { return r.held }) {
			p.held = append(p.held, address)
			continue
		}
		if len(stale) > 0 {
			p.removals = append(p.removals, removal{address, stale})
		}
		switch {
		case !wanted || len(stale) < len(s.owned[address]): // the right one is there, whatever its state
		case s.manual[address]: // adding would overwrite a worker that is none of ours
			p.blocked = append(p.blocked, address)
		default:
			p.additions = append(p.additions, w)
		}
	}
	return p
}

// stale are the registrations at an address that are not those of the wanted worker.
func (s *situation) stale(address string) []registration {
	w, wanted := s.wanted[address]
	var stale []registration
	for _, r := range s.owned[address] {
		if !wanted || r.owner != w.Owner || r.worker.Type() != w.Spec.WorkerType {
			stale = append(stale, r)
		}
	}
	return stale
}

// addresses are those where something is wanted or owned, sorted.
func (s *situation) addresses() []string {
	all := make([]string, 0, len(s.wanted)+len(s.owned))
	all = slices.AppendSeq(all, maps.Keys(s.wanted))
	all = slices.AppendSeq(all, maps.Keys(s.owned))
	slices.Sort(all)
	return slices.Compact(all)
}
