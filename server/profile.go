package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// profileTimeout is how long one engine may take to start or to stop: it may have a long trace to write.
const profileTimeout = 630 * time.Second

// profiled is the answer to POST /start_profile and /stop_profile.
type profiled struct {
	Status   string `json:"status"` // success, partial_success or error
	Message  string `json:"message"`
	Profiled int    `json:"workers_profiled"`
	Total    int    `json:"total_workers"`
	tally
}

// profile has engines start or stop to record what they do: all of them, or the one whose URL the body names. The other fields of the
// body are the engines' business. It is 404 if there is no such worker.
func (g *gateway) profile(path, verb string) pipeline.Stage {
	return pipeline.StageFunc("profile", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		url, body, err := g.profileBody(x)
		if err != nil {
			return err
		}
		ws := g.registry.All()
		if url != "" {
			ws = slices.DeleteFunc(ws, func(w *workers.Worker) bool { return w.URL() != url })
		}
		if ws = engines(ws); len(ws) == 0 {
			return answerJSON(x, http.StatusNotFound, profiled{Status: "error", Message: nobodyToProfile(url)})
		}
		a := profiled{Total: len(ws), tally: g.command(path[1:], ws, errand{http.MethodPost, path, body, profileTimeout})}
		a.Profiled = a.succeeded
		var code int
		code, a.Status = a.status()
		a.Message = fmt.Sprintf("Successfully %s profiling on all %d workers", verb, a.Profiled)
		if len(a.Failed) > 0 {
			a.Message = fmt.Sprintf("Profiling: %s on %d, failed on %d", verb, a.Profiled, len(a.Failed))
		}
		return answerJSON(x, code, a)
	})
}

func nobodyToProfile(url string) string {
	if url == "" {
		return "No workers available for profiling"
	}
	return "No worker matching url '" + url + "'"
}

// profileBody reads the body, which may be absent: the worker that it names, and what the engines get of it.
func (g *gateway) profileBody(x *pipeline.Exchange) (url string, body []byte, err error) {
	sent, err := g.readAll(x)
	if err != nil {
		return "", nil, err
	}
	fields := map[string]json.RawMessage{}
	if len(sent) > 0 {
		if !isJSON(x.Client.Header("Content-Type")) {
			return "", nil, badRequest("Missing Content-Type: application/json header")
		}
		if err := json.Unmarshal(sent, &fields); err != nil || fields == nil {
			return "", nil, badRequest("The request body must be a JSON object")
		}
	}
	if raw, there := fields["url"]; there {
		if err := json.Unmarshal(raw, &url); err != nil {
			return "", nil, badRequest("url must be a string")
		}
		delete(fields, "url")
	}
	body, err = json.Marshal(fields)
	return url, body, err
}
