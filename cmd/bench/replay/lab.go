package replay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/smg-go/smg/stages/policy"
)

// Config says what is simulated.
type Config struct {
	Workloads  []string // names, see [Workloads]; not looked at with a Trace
	Trace      string   // file of a trace of one's own; "": none
	Policies   []string // names, see [policy.Names]; none: all. [Oracle] is always among them
	Engines    []int
	Seeds      []uint64
	Loads      []float64     // shares of the knee, at which every policy is measured
	Poll       time.Duration // between load reports; 0: there are none
	SlowEngine bool          // the first engine has half the speed
	Gateways   int           // each with a view of its own; below 1 counts as 1
	TokenError float64       // share by which policies misjudge the length of a prompt
	Length     float64       // of a run, 1 is the usual; of the two traces at most that
	Settings   policy.Settings
	Progress   io.Writer // gets a line at each step
}

// Row is a policy at one load. Times are in seconds, rates in requests a second.
type Row struct {
	Workload    string  `json:"workload"`
	Policy      string  `json:"policy"`
	Engines     int     `json:"engines"`
	Seed        uint64  `json:"seed"`
	Load        float64 `json:"load"` // share of the knee
	CachedShare float64 `json:"cached_share"`
	TTFTMean    float64 `json:"ttft_mean"`
	TTFTP50     float64 `json:"ttft_p50"`
	TTFTP90     float64 `json:"ttft_p90"`
	TTFTP99     float64 `json:"ttft_p99"`
	E2EP99      float64 `json:"e2e_p99"`
	Imbalance   float64 `json:"imbalance"` // the work of the engine with most of it by the mean
	Capacity    float64 `json:"capacity"`
	VsOracle    float64 `json:"capacity_vs_oracle"`
}

// knee names the policy whose capacity is load 1; where it is not there, the oracle's is.
const knee = "least_work"

// Run simulates everything that the configuration asks for. It stops between two runs when ctx ends. Policies draw their lots from a
// source that is seeded for the process, so nothing else in it should choose by policy meanwhile.
func Run(ctx context.Context, c Config) ([]Row, error) {
	defer policy.Seed(0)
	if len(c.Policies) == 0 {
		c.Policies = policy.Names()
	}
	var rows []Row
	for _, engines := range c.Engines {
		for _, name := range c.names() {
			for _, seed := range c.Seeds {
				l := &lab{ctx: ctx, c: c, began: time.Now(), fleet: fleet{
					size: engines, gateways: c.Gateways, every: c.Poll, slow: c.SlowEngine, tokenError: c.TokenError, seed: seed,
				}}
				more, err := l.rows(name)
				rows = append(rows, more...)
				if err != nil {
					return rows, err
				}
			}
		}
	}
	return rows, nil
}

func (c *Config) names() []string {
	if c.Trace != "" {
		return []string{"trace"}
	}
	return c.Workloads
}

// lab compares policies on one workload, fleet and seed.
type lab struct {
	ctx   context.Context
	c     Config
	fleet fleet
	w     *Workload
	began time.Time
}

func (l *lab) rows(name string) (rows []Row, err error) {
	if l.w, err = l.workload(name); err != nil {
		return nil, err
	}
	best, err := l.capacity(Oracle, l.w.Guess*float64(l.fleet.size))
	if err != nil {
		return nil, err
	}
	capacities, unit := map[string]float64{Oracle: best}, best
	policies := append([]string{Oracle}, l.c.Policies...)
	if slices.Contains(policy.Names(), knee) {
		if capacities[knee], err = l.capacity(knee, best); err != nil {
			return nil, err
		}
		unit = capacities[knee]
	}
	for _, p := range policies {
		if _, known := capacities[p]; !known {
			if capacities[p], err = l.capacity(p, best); err != nil {
				return rows, err
			}
		}
		for _, load := range l.c.Loads {
			r, err := l.play(p, load*unit, false)
			if err != nil {
				return rows, err
			}
			row := l.row(p, load, r.stats.result())
			row.Capacity, row.VsOracle = capacities[p], capacities[p]/best
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (l *lab) workload(name string) (*Workload, error) {
	if l.c.Trace != "" {
		return FromTrace(l.c.Trace)
	}
	return NewWorkload(name, l.fleet.size, l.fleet.seed, l.c.Length)
}

func (l *lab) row(policy string, load float64, r result) Row {
	return Row{
		Workload: l.w.Name, Policy: policy, Engines: l.fleet.size, Seed: l.fleet.seed, Load: load,
		CachedShare: r.cachedShare, TTFTMean: r.mean, TTFTP50: r.p50, TTFTP90: r.p90, TTFTP99: r.p99, E2EP99: r.e2e, Imbalance: r.skew,
	}
}

// play is one run.
func (l *lab) play(name string, rate float64, hopeless bool) (*run, error) {
	if err := l.ctx.Err(); err != nil {
		return nil, err
	}
	r := newRun(l.fleet, l.w, rate)
	r.hopeless = hopeless
	if name == Oracle {
		r.router = newOracle(r)
	} else {
		g, err := newGateways(r, name, l.c.Settings)
		if err != nil {
			return nil, err
		}
		r.engines, r.router = r.models(nil), g
	}
	l.progress("%s at %.3g requests/s", name, rate)
	if err := r.play(); err != nil {
		return nil, fmt.Errorf("%s, %s at %g requests/s: %w", l.w.Name, name, rate, err)
	}
	return r, nil
}

func (l *lab) progress(format string, args ...any) {
	if l.c.Progress != nil {
		fmt.Fprintf(l.c.Progress, "%6.1fs  %s, %d engines, seed %d: %s\n", time.Since(l.began).Seconds(), l.w.Name, l.fleet.size, l.fleet.seed,
			fmt.Sprintf(format, args...))
	}
}

// precision is how close the search for a capacity comes to it.
const precision = 1.02

// capacity is the highest rate at which 90 % of the first tokens come within the workload's limit, found by bisection; hint is
// where the search begins.
func (l *lab) capacity(name string, hint float64) (float64, error) {
	low, high := hint, hint
	carries := func(rate float64) (bool, error) {
		r, err := l.play(name, rate, true)
		if err != nil {
			return false, err
		}
		return !r.late() && r.stats.result().p90 <= l.w.Limit.Seconds(), nil
	}
	ok, err := carries(hint)
	for step := 1.1; ok && err == nil; step *= step {
		low, high = high, high*step
		ok, err = carries(high)
	}
	if low == high { // even the hint is too much
		for step := 1.25; !ok && err == nil && low > hint/1000; step *= step {
			high, low = low, low/step
			ok, err = carries(low)
		}
	}
	for err == nil && high/low > precision {
		middle := (low + high) / 2
		if ok, err = carries(middle); ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low, err
}
