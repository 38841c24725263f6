package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/server"
)

// report prints what was simulated, a table for each load with the best policy first, what follows from it, and what does not.
func (s *simulateCmd) report(out io.Writer, trace *replay.Trace, rows []replay.Row) error {
	var b strings.Builder
	s.describe(&b, trace)
	for _, load := range s.Load {
		at := slices.DeleteFunc(slices.Clone(rows), func(r replay.Row) bool { return r.Load != load })
		if len(at) > 0 {
			writeLoad(&b, at)
		}
	}
	b.WriteByte('\n')
	fold(&b, s.verdict(rows))
	b.WriteByte('\n')
	fold(&b, caveats(trace))
	_, err := io.WriteString(out, b.String())
	return err
}

func (s *simulateCmd) describe(b *strings.Builder, trace *replay.Trace) {
	sum := trace.Summary()
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "traffic\t%d requests in %s, %.0f prompt and %.0f answer tokens on average\n",
		sum.Requests, readable(sum.Lasts), sum.Prompt, sum.Output)
	fmt.Fprintf(t, "\t%.0f %% of the prompt tokens had been seen before\n", 100*sum.Repeated)
	if trace.Refused > 0 {
		fmt.Fprintf(t, "\t%d requests that were refused (4xx) are left out\n", trace.Refused)
	}
	if trace.Torn > 0 {
		fmt.Fprintf(t, "\t%d lines that were cut are left out\n", trace.Torn)
	}
	fmt.Fprintf(t, "fleet\t%d engines, each with %d prefill tokens/s, %d requests at once and %d tokens of KV cache\n",
		s.Engines, s.PrefillTPS, s.MaxRunning, s.KVTokens)
	_ = t.Flush() // into memory
}

// readable is a time without digits that nobody wants.
func readable(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// writeLoad is the table of one load.
func writeLoad(b *strings.Builder, rows []replay.Row) {
	ranked := slices.Clone(rows)
	slices.SortStableFunc(ranked, func(x, y replay.Row) int {
		switch {
		case x.Policy == replay.Oracle:
			return 1
		case y.Policy == replay.Oracle, shorter(x, y):
			return -1
		case shorter(y, x):
			return 1
		}
		return 0
	})
	first := rows[0]
	fmt.Fprintf(b, "\n%s (%s requests/s)\n\n", timesRecorded(first.Load), figures(first.Load*first.Recorded))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tcached\tTTFT p50\tp90\tp99\tend p99\timbalance\tcapacity\t")
	for _, r := range ranked {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.2f s\t%.2f s\t%.2f s\t%.1f s\t%.2f\t%s\t\n",
			r.Policy, 100*r.CachedShare, r.TTFTP50, r.TTFTP90, r.TTFTP99, r.E2EP99, r.Imbalance, capacityOf(r))
	}
	_ = t.Flush() // into memory
}

func timesRecorded(load float64) string {
	if load == 1 {
		return "At the recorded rate"
	}
	return fmt.Sprintf("At %.3g times the recorded rate", load)
}

// measurable tells whether the rate that a fleet can carry was found: a short trace overloads nobody.
func measurable(r replay.Row) bool { return r.Capacity < 100*r.Recorded }

func capacityOf(r replay.Row) string {
	if !measurable(r) {
		return "-"
	}
	return figures(r.Capacity) + "/s"
}

// figures is a number with three of them, never in powers of ten.
func figures(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// alike is how much times of two policies may differ, as a share, and still count as equal.
const alike = 0.02

// shorter tells whether waits are shorter under a policy: by the 90th percentile, and by the 99th where that is alike.
func shorter(x, y replay.Row) bool {
	if math.Abs(x.TTFTP90-y.TTFTP90) > alike*max(x.TTFTP90, y.TTFTP90) {
		return x.TTFTP90 < y.TTFTP90
	}
	return x.TTFTP99 < y.TTFTP99
}

// verdict says which policy did best, and what it gains over the default.
func (s *simulateCmd) verdict(rows []replay.Row) string {
	load := s.Load[0]
	for _, l := range s.Load {
		if math.Abs(l-1) < math.Abs(load-1) {
			load = l
		}
	}
	var best, next, standard *replay.Row
	for i := range rows {
		r := &rows[i]
		if r.Load != load || r.Policy == replay.Oracle {
			continue
		}
		if r.Policy == server.Default().Policy {
			standard = r
		}
		switch {
		case best == nil || shorter(*r, *best):
			best, next = r, best
		case next == nil || shorter(*r, *next):
			next = r
		}
	}
	text := fmt.Sprintf("%s, first tokens came soonest under %s: 90 %% of them within %.2f s, 99 %% within %.2f s.",
		timesRecorded(load), named(best), best.TTFTP90, best.TTFTP99)
	if other := standard; other != nil {
		if other == best {
			other = next
		}
		if other != nil {
			text += " " + compared(best, other)
		}
	}
	if measurable(*best) {
		text += fmt.Sprintf(" Under %s the fleet carries up to %s requests/s, %s times the recorded rate, with 90 %% of first tokens within %.3g s.",
			best.Policy, figures(best.Capacity), figures(best.Capacity/best.Recorded), s.SLOTTFT.Seconds())
	}
	return text
}

// named is a policy's name in a sentence that goes on behind it.
func named(r *replay.Row) string {
	if r.Policy == server.Default().Policy {
		return r.Policy + " (the default)"
	}
	return r.Policy
}

// compared says how much longer waits are under another policy.
func compared(best, other *replay.Row) string {
	text := fmt.Sprintf("Under %s it was %.2f s and %.2f s", named(other), other.TTFTP90, other.TTFTP99)
	p90, p99 := excess(best.TTFTP90, other.TTFTP90), excess(best.TTFTP99, other.TTFTP99)
	if max(p90, p99) < actable {
		return text + ", which is no difference to act upon."
	}
	return fmt.Sprintf("%s, which is %s by the 90th percentile and %s by the 99th.", text, moreOrLess(p90), moreOrLess(p99))
}

// actable is the least difference that is worth a change, as a share: other traffic of the same kind differs by as much.
const actable = 0.05

// excess is by which share of one time another one is longer.
func excess(one, other float64) float64 {
	if one <= 0 {
		return 0
	}
	return other/one - 1
}

func moreOrLess(share float64) string {
	if share < 0 {
		return fmt.Sprintf("%.0f %% less", -100*share)
	}
	return fmt.Sprintf("%.0f %% more", 100*share)
}

// caveats say what does not follow from the figures.
func caveats(trace *replay.Trace) string {
	text := "This is a simulation. Engines are a model with the speeds above, which real ones keep only roughly; network and gateway take no " +
		"time, nothing fails, no engine reuses an answer as part of the next prompt, and clients come when they came, however long they " +
		"wait. The oracle is what one cache for all engines and knowledge of every queue would give."
	if n := trace.Len(); n < 1000 {
		text += fmt.Sprintf(" %d requests are few: the last percent of those that are measured, the last 70 %%, is %d of them.", n, max(1, n*7/1000))
	}
	return text
}

// fold writes a text in lines of at most 100 characters.
func fold(b *strings.Builder, text string) {
	width := 0
	for i, word := range strings.Fields(text) {
		if i > 0 && width+1+len(word) > 100 {
			b.WriteByte('\n')
			width = 0
		} else if i > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	b.WriteByte('\n')
}
