package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// flushTimeout is how long one engine may take to empty its cache.
const flushTimeout = 45 * time.Second

// flushed is the answer to POST /flush_cache. Ranks of one engine count as one.
type flushed struct {
	Status  string `json:"status"` // success or partial_success
	Message string `json:"message"`
	Flushed int    `json:"workers_flushed"`
	HTTP    int    `json:"total_http_workers"`
	GRPC    int    `json:"total_grpc_workers"`
	Skipped int    `json:"total_zmq_workers_skipped"`
	Total   int    `json:"total_workers"`
	tally
}

// flushCache has all engines empty their caches: POST <base>/flush_cache, with the worker's key. 200 if all of them have, or there is
// none; 206 if not, with those that have and those that have not.
func (g *gateway) flushCache() pipeline.Stage {
	return pipeline.StageFunc("flush_cache", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		var a flushed
		all := g.registry.All()
		for _, w := range all {
			if w.Mode() == workers.ZMQ {
				a.Skipped++
			}
		}
		asked := engines(all)
		a.HTTP = len(asked)
		a.Total = a.HTTP + a.GRPC + a.Skipped
		if a.HTTP > 0 {
			a.tally = g.command("flush_cache", asked, errand{method: http.MethodPost, path: "/flush_cache", timeout: flushTimeout})
		}
		a.Flushed = a.succeeded
		var code int
		code, a.Status = a.status()
		a.Message = a.message()
		return answerJSON(x, code, a)
	})
}

func (a *flushed) message() string {
	switch {
	case a.Total == 0:
		return "No workers available for cache flush"
	case len(a.Failed) > 0:
		return fmt.Sprintf("Cache flush: %d succeeded, %d failed", a.Flushed, len(a.Failed))
	}
	return fmt.Sprintf("Successfully flushed cache on all %d workers", a.Flushed)
}
