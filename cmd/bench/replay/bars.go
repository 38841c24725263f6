package replay

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"text/tabwriter"
	"time"
)

// Bar is something that least_work is held to, and how it came out.
type Bar struct {
	Measure string
	Bound   float64
	AtMost  bool    // whether values must be at most the bound; else at least
	Worst   float64 // the value that is furthest on the wrong side
	Where   string  // what it is of
	Cases   int     // how many values there are
}

// Holds tells whether the worst value is within the bound.
func (b Bar) Holds() bool {
	if b.AtMost {
		return b.Worst <= b.Bound
	}
	return b.Worst >= b.Bound
}

// The measures of least-work.md, section 5.
const (
	byOracle = iota
	byCacheAware
	byFreshCacheAware
	cachedOfConv
	cachedOfOthers
	tail
	tailAtKnee
	skewOfFew
	skewOfMany
	oneSlow
	wrongTokens
	wrongTokensOfBursts
	measures
)

// fewEngines is up to how many a fleet is small: the fewer, the more even their work.
const fewEngines = 8

// measure collects the values of one.
type measure struct {
	name   string
	bound  float64
	mean   float64 // bound of the geometric mean; 0: none
	atMost bool
	values []float64
	where  []string
}

// sheet is all of them.
type sheet [measures]measure

func newSheet(poll time.Duration) *sheet {
	return &sheet{
		byOracle:            {name: "capacity by the oracle's", bound: 0.90, mean: 0.95},
		byCacheAware:        {name: fmt.Sprintf("capacity by %s's, %s between reports", WholeCacheAware, poll), bound: 1.05},
		byFreshCacheAware:   {name: fmt.Sprintf("capacity by %s's, %s between reports", WholeCacheAware, freshPoll), bound: 1, mean: 1.03},
		cachedOfConv:        {name: "cached share by the oracle's, conv, up to 70 % load", bound: 0.85},
		cachedOfOthers:      {name: "cached share by the oracle's, others, up to 70 % load", bound: 0.95},
		tail:                {name: "p99 TTFT by the best of the other policies, 70 % load", bound: 1.10, mean: 0.95, atMost: true},
		tailAtKnee:          {name: "p99 TTFT by the best of the other policies, at the knee", bound: 1.05, atMost: true},
		skewOfFew:           {name: fmt.Sprintf("imbalance from 70 %% load, up to %d engines", fewEngines), bound: 1.15, atMost: true},
		skewOfMany:          {name: "imbalance from 70 % load, more engines", bound: 1.40, atMost: true},
		oneSlow:             {name: "capacity with one engine at half speed, by its own", bound: 0.90},
		wrongTokens:         {name: "capacity with tokens wrong by 30 %, by its own", bound: 0.95},
		wrongTokensOfBursts: {name: "capacity with tokens wrong by 30 %, by its own, bursts", bound: 0.85},
	}
}

func (m *measure) add(value float64, where string) {
	m.values, m.where = append(m.values, value), append(m.where, where)
}

// bars are those of the measure: one for its worst value, and one for the mean if that has a bound.
func (m *measure) bars() (bars []Bar) {
	if len(m.values) == 0 {
		return nil
	}
	b := Bar{Measure: m.name, Bound: m.bound, AtMost: m.atMost, Worst: m.values[0], Where: m.where[0], Cases: len(m.values)}
	logs := 0.0
	for i, v := range m.values {
		if v > b.Worst == m.atMost {
			b.Worst, b.Where = v, m.where[i]
		}
		logs += math.Log(v)
	}
	bars = append(bars, b)
	if m.mean > 0 {
		b.Bound, b.Worst, b.Where = m.mean, math.Exp(logs/float64(len(m.values))), "geometric mean"
		bars = append(bars, b)
	}
	return bars
}

const (
	freshPoll  = time.Second
	wrongShare = 0.3
)

// Bars holds what [Run] has found for a configuration against what least_work must show. What the rows do not tell, capacities under other
// conditions, is simulated. Measures of which nothing is known are left out.
func Bars(ctx context.Context, c Config, rows []Row) ([]Bar, error) {
	groups := Grouped(rows)
	found := make([]trials, len(groups))
	labs := c.labs()
	err := each(ctx, len(groups), runtime.GOMAXPROCS(0), func(ctx context.Context, i int) (err error) {
		for _, l := range labs {
			if l.isOf(groups[i][0]) {
				found[i], err = l.trials(ctx, groups[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := newSheet(c.Poll)
	for i, group := range groups {
		all.group(group, found[i])
	}
	var bars []Bar
	for i := range all {
		bars = append(bars, all[i].bars()...)
	}
	return bars, nil
}

// isOf tells whether a row is one of the lab's.
func (l *lab) isOf(r Row) bool {
	return l.fleet.size == r.Engines && l.fleet.seed == r.Seed && l.name == r.Workload
}

// trials are capacities under other conditions; 0 is unknown.
type trials struct{ fresh, slow, wrong float64 }

// trials finds those of the lab. The rows say where to begin.
func (l *lab) trials(ctx context.Context, rows []Row) (t trials, err error) {
	if err := l.open(); err != nil {
		return t, err
	}
	defer func() { l.w = nil }()
	fresh, slow, wrong := *l, *l, *l
	fresh.fleet.every, slow.fleet.slow, wrong.fleet.tokenError = freshPoll, true, wrongShare
	all := []struct {
		lab    *lab
		policy string
		found  *float64
	}{{&fresh, WholeCacheAware, &t.fresh}, {&slow, knee, &t.slow}, {&wrong, knee, &t.wrong}}
	err = each(ctx, len(all), len(all), func(ctx context.Context, i int) (err error) {
		if known := rowsOf(rows, all[i].policy); len(known) > 0 {
			*all[i].found, err = all[i].lab.capacity(ctx, all[i].policy, known[0].Capacity)
		}
		return err
	})
	return t, err
}

// rowsOf are the rows of a policy.
func rowsOf(rows []Row, policy string) (of []Row) {
	for _, r := range rows {
		if r.Policy == policy {
			of = append(of, r)
		}
	}
	return of
}

// group adds what the rows of one workload, fleet and seed tell, and the trials with them.
func (m *sheet) group(rows []Row, t trials) {
	own := rowsOf(rows, knee)
	if len(own) == 0 {
		return
	}
	where := fmt.Sprintf("%s, %d engines, seed %d", own[0].Workload, own[0].Engines, own[0].Seed)
	capacity := own[0].Capacity
	m[byOracle].add(own[0].VsOracle, where)
	if others := rowsOf(rows, WholeCacheAware); len(others) > 0 {
		m[byCacheAware].add(capacity/others[0].Capacity, where)
	}
	if t.fresh > 0 {
		m[byFreshCacheAware].add(capacity/t.fresh, where)
	}
	if t.slow > 0 {
		m[oneSlow].add(t.slow/capacity, where)
	}
	if t.wrong > 0 && own[0].Workload == "bursts" {
		m[wrongTokensOfBursts].add(t.wrong/capacity, where)
	} else if t.wrong > 0 {
		m[wrongTokens].add(t.wrong/capacity, where)
	}
	for _, r := range own {
		m.load(r, rows, fmt.Sprintf("%s, load %g", where, r.Load))
	}
}

// load adds what a row of least_work tells beside those of the others.
func (m *sheet) load(own Row, rows []Row, where string) {
	const near = 1e-9
	best, oracle := math.Inf(1), Row{}
	for _, r := range rows {
		switch {
		case r.Load != own.Load || r.Policy == knee:
		case r.Policy == Oracle:
			oracle = r
		default:
			best = min(best, r.TTFTP99)
		}
	}
	if own.Load <= 0.7+near && oracle.CachedShare > 0 {
		of := cachedOfOthers
		if own.Workload == "conv" {
			of = cachedOfConv
		}
		m[of].add(own.CachedShare/oracle.CachedShare, where)
	}
	if own.Load >= 0.7-near {
		of := skewOfMany
		if own.Engines <= fewEngines {
			of = skewOfFew
		}
		m[of].add(own.Imbalance, where)
	}
	if math.IsInf(best, 1) {
		return
	}
	if math.Abs(own.Load-0.7) < near {
		m[tail].add(own.TTFTP99/best, where)
	}
	if math.Abs(own.Load-1) < near {
		m[tailAtKnee].add(own.TTFTP99/best, where)
	}
}

// PrintBars writes the bars as a table.
func PrintBars(out io.Writer, bars []Bar) error {
	fmt.Fprintf(out, "what %s is held to\n\n", knee)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tbar\tworst\tholds\tof\t")
	for _, b := range bars {
		sign, holds := "≥", "yes"
		if b.AtMost {
			sign = "≤"
		}
		if !b.Holds() {
			holds = "NO"
		}
		fmt.Fprintf(t, "%s\t%s %.2f\t%.3f\t%s\t%s (of %d)\t\n", b.Measure, sign, b.Bound, b.Worst, holds, b.Where, b.Cases)
	}
	return t.Flush()
}
