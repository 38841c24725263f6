package server

import (
	"cmp"
	"math"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Explanation is the answer of POST /explain: what would become of a request now, and why.
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

// newExplanation reads an exchange whose chain has ended with err.
func newExplanation(route string, x *pipeline.Exchange, err error) Explanation {
	e := Explanation{
		Route: route, Model: cmp.Or(x.Model, x.Asked), RequestID: x.ID,
		Candidates: []ExplainedWorker{}, LeftOut: []ExplainedLeaving{}, Scores: []ExplainedScore{},
	}
	for _, w := range x.Candidates.All() {
		e.Candidates = append(e.Candidates, named(w))
	}
	for _, l := range x.Explain.LeftOut {
		e.LeftOut = append(e.LeftOut, ExplainedLeaving{named(l.Worker), l.Stage, l.Reason})
	}
	for _, s := range x.Explain.Scores {
		parts := make(map[string]*float64, len(s.Parts))
		for _, p := range s.Parts {
			parts[p.Name] = finite(p.Value)
		}
		e.Scores = append(e.Scores, ExplainedScore{named(s.Worker), finite(s.Value), parts})
	}
	if leg := x.Legs.Last(); leg != nil {
		chosen := named(leg.Worker)
		e.Choice, e.Policy = &chosen, leg.Policy
	}
	if err != nil {
		failed := pipeline.AsError(err)
		e.Error = &ExplainedError{failed.Status, failed.Code, failed.Message}
	}
	return e
}

func named(w *workers.Worker) ExplainedWorker { return ExplainedWorker{w.ID().String(), w.URL()} }

// finite is nil for what JSON has no number for.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
