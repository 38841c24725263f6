package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// rowLength is how many stages stand side by side: as many as can be read on a page of usual width.
const rowLength = 6

// row is a line of the drawing of one route.
type row struct {
	title  string
	stages []stageView
}

// writeWay draws the way of one route's requests as a Mermaid graph of several rows. What is done once for each request, and what
// once for each attempt, begins on a row of its own. The rows are tied to each other as wholes: a tie between two of their stages would
// turn the rows upright.
func writeWay(w io.Writer, v routeView) error {
	var b strings.Builder
	fmt.Fprintln(&b, "flowchart TB")
	rows := rowsOf(v.Stages)
	stage := 0
	for i, r := range rows {
		var nodes []string
		for _, s := range r.stages {
			stage++
			nodes = append(nodes, fmt.Sprintf("s%d[\"%s\"]", stage, s.label()))
		}
		fmt.Fprintf(&b, "  subgraph row%d[\"%s\"]\n    direction LR\n    %s\n  end\n", i+1, r.title, strings.Join(nodes, " --> "))
	}
	for i := range rows[1:] {
		fmt.Fprintf(&b, "  row%d --> row%d\n", i+1, i+2)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rowsOf breaks a way into rows: behind the retry stage, and where a row would be too long.
func rowsOf(way []stageView) []row {
	attempt := 1 + slices.IndexFunc(way, func(s stageView) bool { return s.Name == "retry" })
	return slices.Concat(broken("each request", way[:attempt]), broken(titleBehind(attempt), way[attempt:]))
}

func titleBehind(attempt int) string {
	if attempt == 0 {
		return "each request" // nothing is retried
	}
	return "each attempt"
}

// broken breaks stages into rows of about the same length.
func broken(title string, stages []stageView) (rows []row) {
	if len(stages) == 0 {
		return nil
	}
	count := (len(stages) + rowLength - 1) / rowLength
	for part := range slices.Chunk(stages, (len(stages)+count-1)/count) {
		rows = append(rows, row{title, part})
		title = "and then" // of the rows that follow
	}
	return rows
}
