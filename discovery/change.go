package discovery

import "slices"

// add adds what has changed about the workers of one pod.
func (c *Change) add(before, now []Wanted) {
	if slices.EqualFunc(before, now, alike) {
		return
	}
	gone, come := without(before, now), without(now, before)
	for i := range gone {
		c.Withdrawn = append(c.Withdrawn, gone[i].Claim)
	}
	for i := range come {
		c.Claimed = append(c.Claimed, come[i].Claim)
	}
	c.Alters = c.Alters || len(gone)+len(come) > 0 || recast(before, now)
}

// alike reports whether two workers are the same to the registry. What else a spec says is read when it is registered, and not
// heeded afterwards.
func alike(a, b Wanted) bool { return a.Claim == b.Claim && a.Spec.WorkerType == b.Spec.WorkerType }

// recast reports whether one of the workers plays another part now.
func recast(before, now []Wanted) bool {
	parts := make(map[Claim]Wanted, len(before))
	for i := range before {
		parts[before[i].Claim] = before[i]
	}
	return slices.ContainsFunc(now, func(w Wanted) bool {
		was, ok := parts[w.Claim]
		return ok && !alike(was, w)
	})
}

// without are those of all whose claim none of the others has.
func without(all, others []Wanted) []Wanted {
	if len(all) == 0 {
		return nil
	}
	claimed := make(map[Claim]struct{}, len(others))
	for i := range others {
		claimed[others[i].Claim] = struct{}{}
	}
	var rest []Wanted
	for i := range all {
		if _, ok := claimed[all[i].Claim]; !ok {
			rest = append(rest, all[i])
		}
	}
	return rest
}
