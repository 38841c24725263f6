package server

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// breakerReset is the end of the path by which a worker's breaker is closed.
const breakerReset = "/breaker/reset"

// updateWorker begins to change what may be changed of a worker in place.
func (g *gateway) updateWorker() pipeline.Stage {
	return pipeline.StageFunc("update_worker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		id, err := workerID(x)
		if err != nil {
			return err
		}
		patch, err := readAdmin(g, x, workers.ParsePatch)
		if err != nil {
			return err
		}
		return answerUpdate(x, id, g.enroller.Update(id, patch))
	})
}

// replaceWorker begins to register a worker anew under its id.
func (g *gateway) replaceWorker() pipeline.Stage {
	return pipeline.StageFunc("replace_worker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		id, err := workerID(x)
		if err != nil {
			return err
		}
		spec, err := readAdmin(g, x, workers.ParseSpec)
		if err != nil {
			return err
		}
		return answerUpdate(x, id, g.enroller.Replace(id, spec))
	})
}

// answerUpdate answers for a change that has been queued, or has not.
func answerUpdate(x *pipeline.Exchange, id workers.ID, err error) error {
	if err != nil {
		return refused(err)
	}
	return answerJSON(x, http.StatusAccepted, accepted{
		Status: "accepted", WorkerID: id.String(), Message: "Worker update queued for background processing",
	})
}

// resetBreaker closes a worker's circuit breaker by hand.
func (g *gateway) resetBreaker() pipeline.Stage {
	type reset struct {
		Status   string `json:"status"`
		WorkerID string `json:"worker_id"`
		Breaker  string `json:"breaker"`
	}
	return pipeline.StageFunc("reset_breaker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		id, err := workerID(x)
		if err != nil {
			return err
		}
		w := g.registry.ByID(id)
		if w == nil {
			return refused(&workers.NotFoundError{ID: id})
		}
		w.Breaker().Reset()
		return answerJSON(x, http.StatusOK, reset{"success", id.String(), w.Breaker().State().String()})
	})
}
