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
			if w.Ready() {
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
