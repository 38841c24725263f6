package pipeline

import "github.com/smg-go/smg/workers"

// Explanation collects why a request would go where it goes. Filters note whom they leave out, policies the parts of each
// score; both only if the exchange carries one.
type Explanation struct {
	LeftOut []LeftOut
	Scores  []Score
}

// LeftOut is one worker that a stage took out of the candidates.
type LeftOut struct {
	Worker *workers.Worker
	Stage  string
	Reason string
}

// Score is what a policy thought of one candidate. Parts add up to the score, or say what it was made of.
type Score struct {
	Worker *workers.Worker
	Value  float64
	Parts  []Part
}

// Part is one part of a score.
type Part struct {
	Name  string
	Value float64
}

// Leave notes that a stage left a worker out. On a nil explanation it does nothing, so that stages need not ask.
func (e *Explanation) Leave(w *workers.Worker, stage, reason string) {
	if e != nil {
		e.LeftOut = append(e.LeftOut, LeftOut{w, stage, reason})
	}
}

// Rate notes a score. On a nil explanation it does nothing; a policy asks before it gathers parts.
func (e *Explanation) Rate(w *workers.Worker, value float64, parts ...Part) {
	if e != nil {
		e.Scores = append(e.Scores, Score{w, value, parts})
	}
}
