package server

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// alive answers liveness probes as long as the process lives, also while it is being shut down.
func alive() pipeline.Stage {
	return pipeline.StageFunc("alive", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		return answer(x, http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
	})
}

// readiness is what GET /readiness says.
type readiness struct {
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Healthy *int   `json:"healthy_workers,omitempty"`
	Total   *int   `json:"total_workers,omitempty"`
}

// readiness reads counts that the registry keeps: it costs the same however many workers there are. Breakers and overload do
// not matter: what they keep out comes back by itself.
func (g *gateway) readiness() (status int, r readiness) {
	pool := g.registry.Pool("", workers.Regular, workers.HTTP)
	healthy, total := pool.Len()-pool.NotReady(), g.registry.Len()
	switch {
	case g.draining.Load():
		return http.StatusServiceUnavailable, readiness{Status: "not ready", Reason: "draining"}
	case healthy == 0 || !g.runtime.Ready():
		return http.StatusServiceUnavailable, readiness{Status: "not ready", Reason: "insufficient healthy workers"}
	}
	return http.StatusOK, readiness{Status: "ready", Healthy: &healthy, Total: &total}
}

// ready answers readiness probes.
func (g *gateway) ready() pipeline.Stage {
	return pipeline.StageFunc("ready", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		status, r := g.readiness()
		return answerJSON(x, status, r)
	})
}
