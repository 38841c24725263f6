package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/smg-go/smg/stages"
)

// writeExplanation prints an explanation for people: what was asked, each worker of the model with what became of it, the choice.
func writeExplanation(w io.Writer, e *stages.Explanation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "route\t%s\n", e.Route)
	fmt.Fprintf(t, "model\t%s\n", orNone(e.Model, "none named"))
	fmt.Fprintf(t, "policy\t%s\n", orNone(e.Policy, "not asked"))
	fmt.Fprintf(t, "choice\t%s\n", choiceOf(e))
	if e.Error != nil {
		fmt.Fprintf(t, "error\t%d %s: %s\n", e.Error.Status, e.Error.Code, e.Error.Message)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(e.Candidates)+len(e.LeftOut) == 0 {
		return nil
	}
	fmt.Fprint(t, "\nWORKER\tSCORE\tWHY\n")
	for _, c := range e.Candidates {
		score, why := ratingOf(e, c)
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.URL, score, why)
	}
	for _, l := range e.LeftOut {
		if !slices.Contains(e.Candidates, l.ExplainedWorker) { // else its row has said it: the policy itself has left it out
			fmt.Fprintf(t, "%s\t-\t%s\n", l.URL, leavingOf(l))
		}
	}
	return t.Flush()
}

func orNone(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

func choiceOf(e *stages.Explanation) string {
	if e.Choice == nil {
		return "nobody"
	}
	return e.Choice.URL
}

// ratingOf is a candidate's score and what it is made of, "-" if the policy has not rated it. The chosen one says so first.
func ratingOf(e *stages.Explanation, c stages.ExplainedWorker) (score, why string) {
	var reasons []string
	if e.Choice != nil && e.Choice.ID == c.ID {
		reasons = append(reasons, "chosen")
	}
	score = "-"
	if i := slices.IndexFunc(e.Scores, func(s stages.ExplainedScore) bool { return s.ID == c.ID }); i >= 0 {
		score = figure(e.Scores[i].Score)
		for _, name := range slices.Sorted(maps.Keys(e.Scores[i].Parts)) {
			reasons = append(reasons, name+" "+figure(e.Scores[i].Parts[name]))
		}
	}
	for _, l := range e.LeftOut {
		if l.ID == c.ID {
			reasons = append(reasons, leavingOf(l))
		}
	}
	return score, strings.Join(reasons, ", ")
}

func leavingOf(l stages.ExplainedLeaving) string { return "left out by " + l.Stage + ": " + l.Reason }

// figure is a number with as many digits as a person wants.
func figure(v *float64) string {
	if v == nil {
		return "not finite"
	}
	if math.Abs(*v) >= 1e15 {
		return strconv.FormatFloat(*v, 'g', 5, 64)
	}
	return strconv.FormatFloat(math.Round(*v*1e4)/1e4, 'f', -1, 64)
}
