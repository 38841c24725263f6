package discovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/smg-go/smg/workers"
)

// Selectors say which pods are workers, and of which part. As soon as one of a part is given, Worker does not count: the pods are
// those of the parts, and the first that matches wins, in the order encode, prefill, decode.
type Selectors struct {
	Worker                  Selector // regular workers
	Encode, Prefill, Decode Selector // the parts of a disaggregated deployment; an empty one matches nothing
}

// roleSelector is a part and the pods that play it.
type roleSelector struct {
	part     workers.Type
	name     string // for logs and people
	selector Selector
}

// roles are the parts in the order in which they are tried; those without a selector are left out.
func (s Selectors) roles() []roleSelector {
	all := []roleSelector{
		{workers.Encode, "encode", s.Encode}, {workers.Prefill, "prefill", s.Prefill}, {workers.Decode, "decode", s.Decode},
	}
	if !s.disaggregated() {
		all = []roleSelector{{workers.Regular, "regular", s.Worker}}
	}
	return slices.DeleteFunc(all, func(r roleSelector) bool { return len(r.selector) == 0 })
}

func (s Selectors) disaggregated() bool { return len(s.Encode)+len(s.Prefill)+len(s.Decode) > 0 }

// Role is the part that a pod with these labels plays; ok is false if it is no worker's pod.
func (s Selectors) Role(labels map[string]string) (part workers.Type, ok bool) {
	for _, r := range s.roles() {
		if r.selector.Matches(labels) {
			return r.part, true
		}
	}
	return workers.Regular, false
}

// filter is what the API server is asked to send: a superset of the pods that play a role, so that only candidates travel and are
// kept. It has the keys that all selectors have, as a set where their values differ. "" is no filter.
func (s Selectors) filter() string {
	roles := s.roles()
	if len(roles) == 0 {
		return ""
	}
	var parts []string
	for _, key := range roles[0].selector.keys() {
		values, common := valuesOf(roles, key)
		switch {
		case !common:
		case len(values) == 1:
			parts = append(parts, key+"="+values[0])
		default:
			parts = append(parts, key+" in ("+strings.Join(values, ",")+")")
		}
	}
	return strings.Join(parts, ",")
}

// valuesOf are the sorted values that the roles want of a label; common is false if one of them does not look at it.
func valuesOf(roles []roleSelector, key string) (values []string, common bool) {
	for _, r := range roles {
		v, ok := r.selector[key]
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	slices.Sort(values)
	return slices.Compact(values), true
}

// describe is the selectors as the first log line shows them.
func (s Selectors) describe() string {
	if !s.disaggregated() {
		return fmt.Sprintf("selector: '%s'", s.Worker)
	}
	return fmt.Sprintf("disaggregated mode | encode: '%s' | prefill: '%s' | decode: '%s'", s.Encode, s.Prefill, s.Decode)
}
