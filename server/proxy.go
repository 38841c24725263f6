package server

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// firstReady chooses the first worker that is ready, for questions that any of them can answer. Without one it is 503
// no_workers.
func (g *gateway) firstReady() pipeline.Stage {
	gives := pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}}
	return pipeline.StageFunc("first_ready", gives, func(x *pipeline.Exchange, next pipeline.Next) error {
		for _, w := range g.registry.Pool("", workers.Regular, workers.HTTP).All() {
			if w.Candidate() {
				x.BeginAttempt()
				x.Legs.Add(w, w.Type())
				return next(x)
			}
		}
		return &pipeline.Error{
			Status: http.StatusServiceUnavailable, Code: "no_workers", Message: "No workers are available", Terminal: true,
		}
	})
}

// eitherName asks the worker by the route's path, and by another one if it does not know that: engines have renamed what they
// tell of themselves. A HEAD is asked as the GET that engines answer.
func eitherName(path, other string) pipeline.Stage {
	needs := pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}
	return pipeline.StageFunc("either_name", needs, func(x *pipeline.Exchange, next pipeline.Next) error {
		client, w := x.Client, x.Target()
		defer func() { x.Client = client }()
		x.Client = question{client, path}
		if other == "" {
			return next(x)
		}
		x.Judge = unknownPath{}
		err := next(x)
		if e := pipeline.AsError(err); err == nil || e.Held == nil || e.Status != http.StatusNotFound {
			return err
		}
		x.Judge = nil
		x.Client = question{client, other}
		x.BeginAttempt()
		x.Legs.Add(w, w.Type())
		return next(x)
	})
}

// unknownPath keeps the answer back that there is no such path.
type unknownPath struct{}

func (unknownPath) Hold(_ *pipeline.Exchange, _ *pipeline.Leg, status int) bool {
	return status == http.StatusNotFound
}

// question is a client that asks something else of a worker than it asked of the gateway.
type question struct {
	pipeline.Client
	path string
}

func (question) Method() string { return http.MethodGet }
func (q question) Path() string { return q.path }
