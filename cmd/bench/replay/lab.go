package replay

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/smg-go/smg/stages/policy"
)

// Config says what is simulated.
type Config struct {
	Workloads  []string  // names, see [Workloads]; not looked at with a Trace
	Trace      string    // file of a trace of one's own; "": none
	Given      *Workload // one that was made already, instead of any other; nil: none
	Policies   []string  // names, see [policy.Names]; none: all. [Oracle] is always among them
	Engines    []int
	Seeds      []uint64
	Loads      []float64     // shares of the knee, at which every policy is measured
	AsRecorded bool          // loads are multiples of the rate of the workload, which has one, instead
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
	Load        float64 `json:"load"`                    // share of the knee, or a multiple of Recorded
	Recorded    float64 `json:"recorded_rate,omitempty"` // requests a second that are load 1; 0: the knee is
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

// knee names the policy whose capacity is load 1.
const knee = "least_work"

// Run simulates everything that the configuration asks for, on all cores. It stops between two runs when ctx ends.
func Run(ctx context.Context, c Config) ([]Row, error) {
	labs := c.labs()
	parts := make([][]Row, len(labs))
	err := each(ctx, len(labs), runtime.GOMAXPROCS(0), func(ctx context.Context, i int) (err error) {
		parts[i], err = labs[i].rows(ctx)
		labs[i] = nil // and its workload
		return err
	})
	return slices.Concat(parts...), err
}

// labs are all comparisons, in order.
func (c Config) labs() (labs []*lab) {
	if len(c.Policies) == 0 {
		c.Policies = policy.Names()
	}
	if c.Progress != nil {
		c.Progress = &inTurn{out: c.Progress}
	}
	began, crew := time.Now(), newCrew()
	for _, engines := range c.Engines {
		for _, name := range c.names() {
			for _, seed := range c.Seeds {
				labs = append(labs, &lab{c: c, name: name, began: began, crew: crew, fleet: fleet{
					size: engines, gateways: c.Gateways, every: c.Poll, slow: c.SlowEngine, tokenError: c.TokenError, seed: seed,
				}})
			}
		}
	}
	return labs
}

func (c *Config) names() []string {
	if c.Given != nil {
		return []string{c.Given.Name}
	}
	if c.Trace != "" {
		return []string{"trace"}
	}
	return c.Workloads
}

// lab compares policies on one workload, fleet and seed.
type lab struct {
	c     Config
	name  string // of the workload
	fleet fleet
	w     *Workload
	began time.Time
	crew  crew
}

func (l *lab) rows(ctx context.Context) ([]Row, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	best, err := l.capacity(ctx, Oracle, l.w.Guess*float64(l.fleet.size))
	if err != nil {
		return nil, err
	}
	policies := append([]string{Oracle}, l.c.Policies...)
	capacities, err := l.capacities(ctx, policies, best)
	if err != nil {
		return nil, err
	}
	unit, recorded := capacities[knee], 0.0
	if l.c.AsRecorded {
		unit, recorded = l.w.Rate, l.w.Rate
	}
	rows := make([]Row, len(policies)*len(l.c.Loads))
	err = each(ctx, len(rows), len(rows), func(ctx context.Context, i int) error {
		name, load := policies[i/len(l.c.Loads)], l.c.Loads[i%len(l.c.Loads)]
		r, err := l.play(ctx, name, load*unit, false)
		if err != nil {
			return err
		}
		rows[i] = l.row(name, load, r.stats.result())
		rows[i].Recorded, rows[i].Capacity, rows[i].VsOracle = recorded, capacities[name], capacities[name]/best
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// capacities are those of the policies, and of the one that is the knee; best is the oracle's.
func (l *lab) capacities(ctx context.Context, policies []string, best float64) (map[string]float64, error) {
	if !slices.Contains(policies, knee) {
		policies = append(slices.Clone(policies), knee)
	}
	found := make([]float64, len(policies))
	err := each(ctx, len(policies), len(policies), func(ctx context.Context, i int) (err error) {
		if found[i] = best; policies[i] != Oracle {
			found[i], err = l.capacity(ctx, policies[i], best)
		}
		return err
	})
	capacities := map[string]float64{}
	for i, name := range policies {
		capacities[name] = found[i]
	}
	return capacities, err
}

// open makes the workload, unless it is there.
func (l *lab) open() (err error) {
	if l.w == nil {
		l.w, err = l.workload(l.name)
	}
	return err
}

func (l *lab) workload(name string) (*Workload, error) {
	if l.c.Given != nil {
		return l.c.Given, nil
	}
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

// play is one run, on a core of its own.
func (l *lab) play(ctx context.Context, name string, rate float64, hopeless bool) (r *run, err error) {
	err = l.crew.work(ctx, func() error {
		r, err = l.playNow(name, rate, hopeless)
		return err
	})
	return r, err
}

func (l *lab) playNow(name string, rate float64, hopeless bool) (*run, error) {
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

// boundless is how much more than where the search begins counts as any rate: a short trace overloads nobody.
const boundless = 1e4

// capacity is the highest rate at which 90 % of the first tokens come within the workload's limit, found by bisection; hint is
// where the search begins.
func (l *lab) capacity(ctx context.Context, name string, hint float64) (float64, error) {
	low, high := hint, hint
	carries := func(rate float64) (bool, error) {
		r, err := l.play(ctx, name, rate, true)
		if err != nil {
			return false, err
		}
		return !r.late() && r.stats.result().p90 <= l.w.Limit.Seconds(), nil
	}
	ok, err := carries(hint)
	for step := 1.1; ok && err == nil && high < boundless*hint; step *= step {
		low, high = high, min(high*step, boundless*hint)
		ok, err = carries(high)
	}
	if ok {
		low = high
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
