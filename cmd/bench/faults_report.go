package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// faultRow is what became of the requests during a fault, and what was left behind.
type faultRow struct {
	Fault     string `json:"fault"`
	Sent      int    `json:"sent"`
	Completed int    `json:"completed"`
	Refused   int    `json:"refused"`  // with a documented error, or a stream that ended visibly broken where the fault breaks streams
	Vanished  int    `json:"vanished"` // the client has left
	Lost      int    `json:"lost"`     // anything else

	Duplicated int `json:"duplicated"` // attempts while another was open, or after its stream had begun
	LeftOver   int `json:"left_over"`  // requests that are still counted, goroutines and files, when all is over

	GrownMiB float64 `json:"grown_mib"` // resident memory
	Example  string  `json:"lost_example,omitempty"`
	Double   string  `json:"duplicated_example,omitempty"`
	Left     string  `json:"left_over_example,omitempty"`

	NotRun string `json:"not_run,omitempty"` // why; the figures are 0 then
}

// leave notes what is left.
func (r *faultRow) leave(before, after *standing) {
	r.LeftOver, r.Left = after.over(before), after.excess(before)
	r.GrownMiB = mebibytes(after.rss - before.rss)
}

// faultReport is the result of bench faults.
type faultReport struct {
	Benchmark string        `json:"benchmark"`
	System    string        `json:"system"`
	CPUs      int           `json:"cpus"`
	Clients   int           `json:"clients"`
	Duration  time.Duration `json:"duration_ns"`
	Faults    []*faultRow   `json:"faults"`
}

func newFaultReport(c *faultsCmd) *faultReport {
	return &faultReport{Benchmark: "faults", System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Clients: c.Clients, Duration: c.Duration}
}

func (r *faultReport) print(w io.Writer) error {
	t := &table{title: fmt.Sprintf("bench faults: %s, %d CPUs, 3 engines, %d clients, %s a fault", r.System, r.CPUs, r.Clients, r.Duration)}
	t.add("fault", "sent", "completed", "refused", "vanished", "lost", "duplicated", "left over", "grown MiB")
	missing := ""
	for _, f := range r.Faults {
		if f.NotRun != "" {
			missing = "\nNOT RUN: " + f.NotRun + "\n"
			t.add(f.Fault, "NOT RUN")
			continue
		}
		n := func(n int) string { return fmt.Sprint(n) }
		t.add(f.Fault, n(f.Sent), n(f.Completed), n(f.Refused), n(f.Vanished), n(f.Lost), n(f.Duplicated), n(f.LeftOver), fmt.Sprintf("%.1f", f.GrownMiB))
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, missing)
	return err
}

// err is what was lost, duplicated or left over.
func (r *faultReport) err() error {
	var found []string
	for _, f := range r.Faults {
		for _, what := range []struct {
			count   int
			says    string
			example string
		}{{f.Lost, "lost", f.Example}, {f.Duplicated, "duplicated", f.Double}, {f.LeftOver, "left over", f.Left}} {
			if what.count > 0 {
				found = append(found, fmt.Sprintf("%s: %d %s, such as: %s", f.Fault, what.count, what.says, what.example))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(found, "\n"))
}
