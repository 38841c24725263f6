package pipeline

import "sync/atomic"

// Demand is what live policies read of a request now. Policies come and go with models while chains stay: a policy raises
// what it needs when it is made and drops it when it goes; the stages that would compute it look here first.
type Demand struct {
	text, tokens, loads atomic.Int64
}

// Want is one kind of demand.
type Want uint8

// The kinds of demand; they may be added up.
const (
	WantText   Want = 1 << iota // the text of prompts
	WantTokens                  // the token ids of prompts
	WantLoads                   // load reports of workers
)

// Raise counts one more policy that wants it.
func (d *Demand) Raise(w Want) { d.add(w, 1) }

// Drop takes a Raise back.
func (d *Demand) Drop(w Want) { d.add(w, -1) }

func (d *Demand) add(w Want, by int64) {
	for kind, n := range map[Want]*atomic.Int64{WantText: &d.text, WantTokens: &d.tokens, WantLoads: &d.loads} {
		if w&kind != 0 {
			n.Add(by)
		}
	}
}

// Text tells whether some policy reads prompt text.
func (d *Demand) Text() bool { return d.text.Load() > 0 }

// Tokens tells whether some policy reads token ids.
func (d *Demand) Tokens() bool { return d.tokens.Load() > 0 }

// Loads tells whether some policy reads load reports.
func (d *Demand) Loads() bool { return d.loads.Load() > 0 }
