package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// discoveryRow is a measured value with what it should be at most.
type discoveryRow struct {
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Bar     float64 `json:"bar"`
	Unit    string  `json:"unit"`
	Samples int     `json:"samples,omitempty"` // that the value is taken from; 0: it is none of many
	Result  string  `json:"result"`            // ok, short, no data
	Note    string  `json:"note,omitempty"`
}

// discoveryReport is all that bench discovery has found out.
type discoveryReport struct {
	Benchmark string          `json:"benchmark"`
	When      time.Time       `json:"when"`
	System    string          `json:"system"`
	CPUs      int             `json:"cpus"`
	Rows      []*discoveryRow `json:"rows"`

	lost    int
	example string // of a request that was lost
}

func newDiscoveryReport() *discoveryReport {
	return &discoveryReport{
		Benchmark: "discovery", When: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

// add judges a value: it should be at most the bar.
func (r *discoveryReport) add(row discoveryRow) {
	row.Result = "ok"
	if row.Value > row.Bar {
		row.Result = "short"
	}
	r.Rows = append(r.Rows, &row)
}

// percentile adds a percentile (0 to 1) of times, in seconds.
func (r *discoveryReport) percentile(measure string, times []time.Duration, share, bar float64) {
	value := percentile(slices.Sorted(slices.Values(times)), share).Seconds()
	r.add(discoveryRow{Measure: fmt.Sprintf("%s, p%.0f", measure, 100*share), Value: value, Bar: bar, Unit: "s", Samples: len(times)})
	if len(times) == 0 {
		r.Rows[len(r.Rows)-1].Result = "no data" // it was over too soon
	}
}

// note is a remark on the row that was added last.
func (r *discoveryReport) note(format string, args ...any) {
	r.Rows[len(r.Rows)-1].Note = fmt.Sprintf(format, args...)
}

func (r *discoveryReport) print(w io.Writer) error {
	t := &table{title: fmt.Sprintf("bench discovery: %s, %d CPUs", r.System, r.CPUs)}
	t.add("measure", "value", "at most", "unit", "samples", "")
	for _, row := range r.Rows {
		samples := none
		if row.Samples > 0 {
			samples = fmt.Sprint(row.Samples)
		}
		t.add(row.Measure, figure(row.Value, row.Unit), fmt.Sprint(row.Bar), row.Unit, samples, row.Result)
	}
	if err := t.print(w); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Note == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "  %s: %s\n", row.Measure, row.Note); err != nil {
			return err
		}
	}
	return nil
}

// figure has as many digits as a unit deserves.
func figure(value float64, unit string) string {
	digits := map[string]int{"s": 3, "cores": 3, "MiB": 1}[unit]
	return fmt.Sprintf("%.*f", digits, value)
}

// err is what was lost.
func (r *discoveryReport) err() error {
	if r.lost == 0 {
		return nil
	}
	return fmt.Errorf("%d requests were lost, such as: %s", r.lost, r.example)
}
