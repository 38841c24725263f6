package engine

import (
	"sync/atomic"
)

// State counts what the engine has done since it was made.
type State struct {
	Name        string           `json:"name"`
	Engine      Kind             `json:"engine"`
	InFlight    int64            `json:"in_flight"`   // inference requests that are being answered now
	Max         int64            `json:"max"`         // the most that ever were
	Total       int64            `json:"total"`       // inference requests so far
	Connections int64            `json:"connections"` // open now
	Accepted    int64            `json:"accepted"`    // connections so far
	Tokens      int64            `json:"tokens"`      // made so far
	Paths       map[string]int64 `json:"paths"`       // requests for each known path; "other" for the rest
}

// counters are what State reads. Those of a path live in its route.
type counters struct {
	inFlight, most, total atomic.Int64
	open, accepted        atomic.Int64
	prompt, tokens        atomic.Int64 // tokens so far
	held                  atomic.Int64 // prompt tokens of the requests in flight
	answers               atomic.Int64 // the last answer's number
	finished              atomic.Int64 // answers that ended well
}

func (c *counters) begin() {
	c.total.Add(1)
	now := c.inFlight.Add(1)
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			return
		}
	}
}

func (c *counters) end() { c.inFlight.Add(-1) }

// State returns the counts as they are now.
func (e *Engine) State() State {
	c := &e.counters
	paths := map[string]int64{}
	for path, r := range e.routes {
		if n := r.requests.Load(); n > 0 {
			paths[path] = n
		}
	}
	if n := e.other.requests.Load(); n > 0 {
		paths["other"] = n
	}
	return State{
		Name: e.Name(), Engine: e.cfg.Engine, InFlight: c.inFlight.Load(), Max: c.most.Load(), Total: c.total.Load(),
		Connections: c.open.Load(), Accepted: c.accepted.Load(), Tokens: c.tokens.Load(), Paths: paths,
	}
}
