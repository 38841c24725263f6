package pipeline

import "sync/atomic"

// Demand is what live policies read of a request now. Policies come and go with models while chains stay: a policy raises
// what it needs when it is made and drops it when it goes; the stages that would compute it look here first.
type Demand struct {
	text, tokens, loads, textIfRead atomic.Int64
}

// Want is one kind of demand.
type Want uint8

// The kinds of demand; they may be added up.
const (
	WantText       Want = 1 << iota // the text of prompts
	WantTokens                      // the token ids of prompts
	WantLoads                       // load reports of workers
	WantTextIfRead                  // the text of prompts whose bodies are read anyway: no body is read for its sake
)

// Raise counts one more policy that wants it.
func (d *Demand) Raise(w Want) { d.add(w, 1) }

// Drop takes a Raise back.
func (d *Demand) Drop(w Want) { d.add(w, -1) }

func (d *Demand) add(w Want, by int64) {
	for kind, n := range map[Want]*atomic.Int64{WantText: &d.text, WantTokens: &d.tokens, WantLoads: &d.loads, WantTextIfRead: &d.textIfRead} {
		if w&kind != 0 {
			n.Add(by)
		}
	}
}

// Text tells whether some policy reads prompt text, so that bodies are read for it.
func (d *Demand) Text() bool { return d.text.Load() > 0 }

// TextIfRead tells whether some policy reads prompt text where the body was read, for whatever reason.
func (d *Demand) TextIfRead() bool { return d.Text() || d.textIfRead.Load() > 0 }

// Tokens tells whether some policy reads token ids.
func (d *Demand) Tokens() bool { return d.tokens.Load() > 0 }

// Loads tells whether some policy reads load reports.
func (d *Demand) Loads() bool { return d.loads.Load() > 0 }
