package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// at is a registration, written "url:owner"; " held" behind it for one that has just been cordoned, " prefill" for one of that type.
func at(t *testing.T, text string) registration {
	t.Helper()
	word := strings.Fields(text)
	url, owner, _ := strings.Cut(word[0], "=")
	spec := workers.NewSpec(url)
	if strings.Contains(text, " prefill") {
		spec.WorkerType = workers.Prefill
	}
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(workers.Ready)
	return registration{w, owner, strings.HasSuffix(text, " held")}
}

// want is a wanted worker, written "address=owner".
func want(text string) Wanted {
	address, owner, _ := strings.Cut(text, "=")
	return Wanted{Claim: Claim{address, owner}, Name: owner, Key: owner, Spec: workers.NewSpec(address)}
}

// told is a plan in words, in its order.
func (p *plan) told() (out []string) {
	for _, r := range p.removals {
		var urls []string
		for i, t := range r.targets {
			urls = append(urls, t.worker.URL())
			if r.guards()[i] != workers.PinTo(t.worker) {
				panic("a removal is pinned to what has been seen")
			}
		}
		out = append(out, fmt.Sprintf("remove %s: %s", r.address, strings.Join(urls, " ")))
	}
	for _, w := range p.additions {
		out = append(out, fmt.Sprintf("add %s for %s", w.Address, w.Owner))
	}
	for _, a := range p.blocked {
		out = append(out, "blocked "+a)
	}
	for _, a := range p.held {
		out = append(out, "held "+a)
	}
	return out
}

// discovery.md section 8: the table, row by row, and its Check lines; DECISIONS 51 for what is held.
func TestAPassComparesWholeStates(t *testing.T) {
	tests := []struct {
		name, wanted, owned, manual, busy string // words apart by commas
		want                              []string
	}{
		{"row 1: an address with a job in flight is left alone", "a:1=u2, b:1=u1", "http://a:1=u1", "", "a:1", []string{"add b:1 for u1"}},
		{"row 1: also if nobody wants it any more", "", "http://a:1=u1", "", "a:1", nil},
		{"row 2: nothing wanted, nothing there", "", "", "", "", nil},
		{"row 2: a worker added by hand is none of ours", "", "", "a:1", "", nil},
		{"row 3: what nobody wants goes", "", "http://a:1=u1", "", "", []string{"remove a:1: http://a:1"}},
		{"row 3: one removal for all ranks of an address", "", "http://a:1@0=u1, http://a:1@1=u1", "", "", []string{"remove a:1: http://a:1@0 http://a:1@1"}},
		{"row 3: what was added by hand at the address stays", "", "grpc://a:1=u1", "a:1", "", []string{"remove a:1: grpc://a:1"}},
		{"row 4: what is wanted and not there is added", "a:1=u1, b:1=u1", "", "", "", []string{"add a:1 for u1", "add b:1 for u1"}},
		{"row 6: an address that somebody else has is left to him", "a:1=u1", "", "a:1", "", []string{"blocked a:1"}},
		{"row 7: the right one is there", "a:1=u1", "http://a:1=u1", "", "", nil},
		{"row 7: the right one is there, in all its ranks", "a:1=u1", "http://a:1@0=u1, http://a:1@1=u1", "", "", nil},
		{"row 7: somebody else's beside it changes nothing", "a:1=u1", "http://a:1=u1", "a:1", "", nil},
		{"row 7: and what is wanted no more goes", "a:1=u1", "http://a:1=u1, http://c:1=u2", "", "", []string{"remove c:1: http://c:1"}},
		{"row 8: another pod at the address: the old one goes, then the new one comes", "a:1=u2", "http://a:1=u1", "", "", []string{"remove a:1: http://a:1", "add a:1 for u2"}},
		{"row 8: with all ranks of the old one", "a:1=u2", "http://a:1@0=u1, http://a:1@1=u1", "", "", []string{"remove a:1: http://a:1@0 http://a:1@1", "add a:1 for u2"}},
		{"row 8: not over a worker that somebody else has put there", "a:1=u2", "grpc://a:1=u1", "a:1", "", []string{"remove a:1: grpc://a:1", "blocked a:1"}},
		{"row 9: a stale one beside the right one goes", "a:1=u1", "http://a:1=u1, grpc://a:1=u0", "", "", []string{"remove a:1: grpc://a:1"}},
		{"row 10: another role is another worker", "a:1=u1", "http://a:1=u1 prefill", "", "", []string{"remove a:1: http://a:1", "add a:1 for u1"}},
		{"removals come before additions, each by address", "d:1=u, b:1=u", "http://c:1=x, http://a:1=x", "", "", []string{"remove a:1: http://a:1", "remove c:1: http://c:1", "add b:1 for u", "add d:1 for u"}},
		{"a worker that has just been cordoned waits", "b:1=u1", "http://a:1=u1 held", "", "", []string{"add b:1 for u1", "held a:1"}},
		{"and so does its successor", "a:1=u2", "http://a:1=u1 held", "", "", []string{"held a:1"}},
		{"the right one is not held up by its cordon", "a:1=u1", "http://a:1=u1 held, grpc://a:1=u0", "", "", []string{"remove a:1: grpc://a:1"}},
	}
	words := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := situation{wanted: map[string]Wanted{}, owned: map[string][]registration{}, manual: map[string]bool{}, busy: map[string]bool{}}
			for _, text := range words(tt.wanted) {
				w := want(strings.TrimSpace(text))
				s.wanted[w.Address] = w
			}
			for _, text := range words(tt.owned) {
				r := at(t, strings.TrimSpace(text))
				address := r.worker.Endpoint().Address
				s.owned[address] = append(s.owned[address], r)
			}
			for _, address := range words(tt.manual) {
				s.manual[address] = true
			}
			for _, address := range words(tt.busy) {
				s.busy[address] = true
			}
			p := decide(s)
			require.Equal(t, tt.want, p.told())
		})
	}
}

// discovery.md section 8, row 7: any status will do, a drain is not called off and no second one begun.
func TestAPassLeavesTheRightWorkerInAnyState(t *testing.T) {
	for _, status := range []workers.Status{workers.Pending, workers.NotReady, workers.Failed, workers.Draining} {
		r := at(t, "http://a:1=u1")
		r.worker.SetStatus(status)
		p := decide(situation{wanted: map[string]Wanted{"a:1": want("a:1=u1")}, owned: map[string][]registration{"a:1": {r}}})
		require.Empty(t, p.told(), status.String())
	}
}
