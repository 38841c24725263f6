package replay

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the rows as tables, one for each workload, size of fleet and seed.
func Print(out io.Writer, rows []Row) error {
	for _, group := range Grouped(rows) {
		first := group[0]
		fmt.Fprintf(out, "%s, %d engines, seed %d; load 1 is the capacity of %s\n\n", first.Workload, first.Engines, first.Seed, knee)
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "policy\tload\tcached\tTTFT mean\tp50\tp90\tp99\tend p99\timbalance\tcapacity\tof oracle\t")
		for _, r := range group {
			fmt.Fprintf(t, "%s\t%.2f\t%.1f %%\t%.2f s\t%.2f s\t%.2f s\t%.2f s\t%.1f s\t%.2f\t%.2f/s\t%.2f\t\n", r.Policy, r.Load, 100*r.CachedShare,
				r.TTFTMean, r.TTFTP50, r.TTFTP90, r.TTFTP99, r.E2EP99, r.Imbalance, r.Capacity, r.VsOracle)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// Grouped are the rows of each workload, fleet and seed, in their order.
func Grouped(rows []Row) [][]Row {
	type group struct {
		workload string
		engines  int
		seed     uint64
	}
	var groups [][]Row
	place := map[group]int{}
	for _, r := range rows {
		g := group{r.Workload, r.Engines, r.Seed}
		i, known := place[g]
		if !known {
			i = len(groups)
			place[g] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}
