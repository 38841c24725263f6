package stages

import (
	"fmt"
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Candidates looks up the workers that serve the request's model over HTTP: the pool. All of them are candidates; the filters
// behind it narrow the list. A model that no registered worker serves is 404 model_not_found, which no retry helps; when no
// worker is registered at all it is 503, for one may come.
// uses is the background work that fills the registry and keeps it true.
func Candidates(registry *workers.Registry, uses ...pipeline.Dependency) pipeline.Stage {
	return &candidates{registry, uses}
}

type candidates struct {
	registry *workers.Registry
	uses     []pipeline.Dependency
}

var (
	_ pipeline.Stage      = (*candidates)(nil)
	_ pipeline.Contracted = (*candidates)(nil)
)

func (*candidates) Name() string { return "candidates" }

func (s *candidates) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Model},
		Gives: []pipeline.Fact{pipeline.Pool, pipeline.Candidates},
		Uses:  s.uses,
	}
}

func (s *candidates) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	x.Pool = s.registry.Pool(x.Model, workers.Regular, workers.HTTP)
	if x.Pool.Len() == 0 {
		return s.nobody(x)
	}
	x.Candidates = x.Pool
	return next(x)
}

func (s *candidates) nobody(x *pipeline.Exchange) error {
	if s.registry.Len() == 0 {
		return pipeline.NoAvailableWorkers(x)
	}
	return modelNotFound(x.Asked)
}

func modelNotFound(asked string) *pipeline.Error {
	if asked == "" {
		asked = "unknown"
	}
	return &pipeline.Error{
		Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("No worker available for model '%s'", asked), Terminal: true,
	}
}
