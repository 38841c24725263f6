package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// none stands for a figure that there is not.
const none = "-"

// table is printed with the first column to the left and all others to the right.
type table struct {
	title string
	rows  [][]string // the first has the names of the columns
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n", t.title)
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// print writes all tables of the report.
func (r *report) print(w io.Writer) error {
	tables := []*table{r.peerTable()}
	for _, l := range r.loads {
		tables = append(tables, r.figureTable(l), r.ratioTable(l))
	}
	for _, t := range append(tables, r.reachTable()) {
		if err := t.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) peerTable() *table {
	t := &table{title: fmt.Sprintf("bench %s: %s, %d CPUs, %d rounds of %s a row", r.Benchmark, r.System, r.CPUs, r.Rounds, r.Duration)}
	if r.Policy != "" {
		t.title += fmt.Sprintf(", %s over %d engines", r.Policy, r.Engines)
	}
	t.add("peer", "version", "idle RSS MiB", "added p50 ms", "")
	for _, p := range r.Peers {
		idle, added, note := none, none, ""
		if p.IdleMiB != nil {
			idle = fmt.Sprintf("%.1f", p.IdleMiB.Median)
		}
		if p.AddedP50Ms != nil {
			added = fmt.Sprintf("%.3f", *p.AddedP50Ms)
		}
		switch {
		case !p.Installed:
			note = "not installed"
		case p.Failure != "":
			note = "did not start"
		}
		t.add(p.Name, orNone(p.Version), idle, added, note)
	}
	return t
}

// figureTable has the medians, with the least and greatest of all rounds behind them.
func (r *report) figureTable(l loadName) *table {
	t := &table{title: l.String()}
	head := []string{"peer"}
	for _, m := range metricsOf(r.unit) {
		head = append(head, m.title, "")
	}
	t.add(append(head, "failed")...)
	for _, res := range r.Results {
		if res.Load != l {
			continue
		}
		row := []string{res.Peer}
		for _, m := range metricsOf(r.unit) {
			s, found := res.Figures[m.key]
			row = append(row, figureCells(s, found, m.digits, r.Rounds)...)
		}
		failed := "0"
		if res.Failed > 0 {
			failed = fmt.Sprintf("%d: does not count (%s)", res.Failed, res.Failure)
		}
		t.add(append(row, failed)...)
	}
	return t
}

func figureCells(s spread, found bool, digits, rounds int) []string {
	switch {
	case !found:
		return []string{none, ""}
	case rounds == 1:
		return []string{fmt.Sprintf("%.*f", digits, s.Median), ""}
	}
	return []string{fmt.Sprintf("%.*f", digits, s.Median), fmt.Sprintf("%.*f..%.*f", digits, s.Min, digits, s.Max)}
}

// ratioTable has each figure divided by that of nginx, and by that of smg 1.13.0.
func (r *report) ratioTable(l loadName) *table {
	t := &table{title: fmt.Sprintf("%s: times nginx | times %s", l, deployedName)}
	head := []string{"peer"}
	for _, m := range metricsOf(r.unit) {
		head = append(head, m.title)
	}
	t.add(head...)
	for _, res := range r.Results {
		if res.Load != l || !res.counts() {
			continue
		}
		row := []string{res.Peer}
		for _, m := range metricsOf(r.unit) {
			row = append(row, r.ratio(res, m.key, nginxName)+" | "+r.ratio(res, m.key, deployedName))
		}
		t.add(row...)
	}
	return t
}

func (r *report) ratio(res result, key, peer string) string {
	mine, ok := res.Figures[key]
	other, found := r.figure(peer, res.Load, key)
	if !ok || !found || other == 0 {
		return none
	}
	return fmt.Sprintf("%.2f", mine.Median/other)
}

func (r *report) reachTable() *table {
	t := &table{title: "reach of smg"}
	t.add("check", "value", "goal", "")
	for _, v := range r.Reach {
		value, sign := none, "<="
		if v.Value != nil {
			value = fmt.Sprintf("%.3f", *v.Value)
		}
		if v.AtLeast {
			sign = ">="
		}
		t.add(v.Check, value, fmt.Sprintf("%s %.2f", sign, v.Limit), v.Result)
	}
	return t
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
