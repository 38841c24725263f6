package stages

import (
	"cmp"
	"math"
	"slices"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Explanation is the answer of POST /explain, and of a request that asks for the header: what becomes of a request now, and why.
type Explanation struct {
	Route      string             `json:"route"`
	Model      string             `json:"model"`      // the canonical id, or as asked if nobody serves it; "" if the request names none
	Policy     string             `json:"policy"`     // of the model; "" if the request does not get that far
	Candidates []ExplainedWorker  `json:"candidates"` // what the policy had to choose from
	LeftOut    []ExplainedLeaving `json:"left_out"`   // the other workers of the model, and candidates that the policy did not compare (stage "policy")
	Scores     []ExplainedScore   `json:"scores"`     // none for a policy that rates nobody
	Choice     *ExplainedWorker   `json:"choice"`     // null: nobody
	Error      *ExplainedError    `json:"error"`      // what the client would get instead of a worker's answer; null: nothing
	RequestID  string             `json:"request_id"`
	Attempt    int                `json:"attempt"`             // 1 is the first
	Shortened  bool               `json:"shortened,omitempty"` // of a header alone: its lists name only some of the workers
}

// ExplainedWorker names a worker.
type ExplainedWorker struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// ExplainedLeaving is a worker that a stage took out of the candidates.
type ExplainedLeaving struct {
	ExplainedWorker
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
}

// ExplainedScore is what the policy thought of a candidate; the lowest score wins. Numbers are null if they are not finite.
type ExplainedScore struct {
	ExplainedWorker
	Score *float64            `json:"score"`
	Parts map[string]*float64 `json:"parts"`
}

// ExplainedError is an error that the gateway would answer with.
type ExplainedError struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NewExplanation reads an exchange whose chain has come to a choice, or has ended with err.
func NewExplanation(route string, x *pipeline.Exchange, err error) Explanation {
	e := Explanation{
		Route: route, Model: cmp.Or(x.Model, x.Asked), RequestID: x.ID, Attempt: x.Number,
		Candidates: []ExplainedWorker{}, LeftOut: []ExplainedLeaving{}, Scores: []ExplainedScore{},
	}
	for _, w := range x.Candidates.All() {
		e.Candidates = append(e.Candidates, called(w))
	}
	for _, l := range x.Explain.LeftOut {
		e.LeftOut = append(e.LeftOut, ExplainedLeaving{called(l.Worker), l.Stage, l.Reason})
	}
	for _, s := range x.Explain.Scores {
		parts := make(map[string]*float64, len(s.Parts))
		for _, p := range s.Parts {
			parts[p.Name] = finite(p.Value)
		}
		e.Scores = append(e.Scores, ExplainedScore{called(s.Worker), finite(s.Value), parts})
	}
	if leg := x.Legs.Last(); leg != nil {
		chosen := called(leg.Worker)
		e.Choice, e.Policy = &chosen, leg.Policy
	}
	if err != nil {
		failed := pipeline.AsError(err)
		e.Error = &ExplainedError{failed.Status, failed.Code, failed.Message}
	}
	return e
}

// shortened is the explanation with n entries at most in each list: the best scores, and the first of the others.
func (e *Explanation) shortened(n int) Explanation {
	short := *e
	short.Candidates, short.LeftOut = e.Candidates[:min(n, len(e.Candidates))], e.LeftOut[:min(n, len(e.LeftOut))]
	best := slices.Clone(e.Scores)
	slices.SortStableFunc(best, func(a, b ExplainedScore) int { return cmp.Compare(a.rank(), b.rank()) })
	short.Scores = best[:min(n, len(best))]
	short.Shortened = n < max(len(e.Candidates), len(e.LeftOut), len(e.Scores))
	return short
}

// rank is the score, or more than any if it is not finite.
func (s *ExplainedScore) rank() float64 {
	if s.Score == nil {
		return math.Inf(1)
	}
	return *s.Score
}

func called(w *workers.Worker) ExplainedWorker { return ExplainedWorker{w.ID().String(), w.URL()} }

// finite is nil for what JSON has no number for.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
