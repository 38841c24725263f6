package main

import "fmt"

// verdict is one line of the reach table: whether smg is where it should be.
type verdict struct {
	Check   string   `json:"check"`
	Value   *float64 `json:"value,omitempty"` // nil: there are no figures for it
	Limit   float64  `json:"limit"`
	AtLeast bool     `json:"at_least"` // else the value must be at most the limit
	Result  string   `json:"result"`   // pass, fail, no data
}

// goal is what smg should reach for one figure: alone, or relative to a peer.
type goal struct {
	key, text string
	load      loadName
	peer      string // empty: the figure itself is compared
	limit     float64
	atLeast   bool
}

// policyGoals are for a policy that looks at prompts and loads.
var policyGoals = []goal{
	{"cpu_us", "CPU per request", loadName{KiB: 1, Connections: 32}, deployedName, 0.35, false},
	{"cpu_us", "CPU per request", loadName{KiB: 32, Connections: 32}, deployedName, 0.35, false},
}

var overheadGoals = []goal{
	{"per_second", "requests/s", loadName{KiB: 1, Connections: 32}, nginxName, 0.50, true},
	{"per_second", "requests/s", loadName{KiB: 1, Connections: 32}, deployedName, 2.5, true},
	{"cpu_us", "CPU per request", loadName{KiB: 1, Connections: 32}, deployedName, 0.35, false},
	{"cpu_us", "CPU per request", loadName{KiB: 32, Connections: 32}, deployedName, 0.25, false},
	{"cpu_us", "CPU per request", loadName{KiB: 256, Connections: 32}, deployedName, 0.25, false},
}

// CPU per event is judged where two cores keep the pace. With more events than that, several wait in each read, and the figure
// flatters whoever is slow.
var streamGoals = []goal{
	{"cpu_us", "CPU per event", loadName{Streams: 256}, deployedName, 0.75, false},
	{"cpu_us", "CPU per event", loadName{Streams: 256}, nginxName, 1.4, false},
	{"peak_mib", "peak RSS, MiB", loadName{Streams: 1000}, "", 100, false},
}

// Goals that belong to no row.
const (
	maxAddedP50Ms = 0.10
	maxIdleMiB    = 45
)

// reach compares smg with the goals of the benchmark.
func reach(r *report) []verdict {
	goals := streamGoals
	switch {
	case r.Policy != "":
		goals = policyGoals
	case r.unit == "request":
		goals = overheadGoals
	}
	var all []verdict
	for _, g := range goals {
		all = append(all, g.judge(r))
	}
	for _, p := range r.Peers {
		if p.Name != smgName {
			continue
		}
		if r.unit == "request" && r.Policy == "" {
			all = append(all, newVerdict("added p50 at one connection, ms", p.AddedP50Ms, maxAddedP50Ms, false))
		}
		var idle *float64
		if p.IdleMiB != nil {
			idle = &p.IdleMiB.Median
		}
		all = append(all, newVerdict("idle RSS, MiB", idle, maxIdleMiB, false))
	}
	return all
}

func (g goal) judge(r *report) verdict {
	text := fmt.Sprintf("%s (%s)", g.text, g.load)
	value, found := r.figure(smgName, g.load, g.key)
	if g.peer != "" {
		text += " relative to " + g.peer
		other, ok := r.figure(g.peer, g.load, g.key)
		if found = found && ok && other > 0; found {
			value /= other
		}
	}
	if !found {
		return newVerdict(text, nil, g.limit, g.atLeast)
	}
	return newVerdict(text, &value, g.limit, g.atLeast)
}

func newVerdict(check string, value *float64, limit float64, atLeast bool) verdict {
	v := verdict{Check: check, Value: value, Limit: limit, AtLeast: atLeast, Result: "fail"}
	switch {
	case value == nil:
		v.Result = "no data"
	case atLeast && *value >= limit, !atLeast && *value <= limit:
		v.Result = "pass"
	}
	return v
}
