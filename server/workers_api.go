package server

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/workers"
)

// The codes of the worker API.
const (
	codeBadRequest = "BAD_REQUEST"
	codeNotFound   = "WORKER_NOT_FOUND"
	codeExists     = "WORKER_ALREADY_EXISTS"
	codeInProgress = "WORKER_CREATE_IN_PROGRESS"
	codeInternal   = "INTERNAL_SERVER_ERROR"
)

// accepted is the answer to a change that goes on in the background.
type accepted struct {
	Status   string `json:"status"`
	WorkerID string `json:"worker_id"`
	URL      string `json:"url,omitempty"`
	Location string `json:"location,omitempty"`
	Message  string `json:"message"`
}

// addWorker begins to register a worker and answers with the id that it will have.
func (g *gateway) addWorker() pipeline.Stage {
	return pipeline.StageFunc("add_worker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		spec, err := readAdmin(g, x, workers.ParseSpec)
		if err != nil {
			return err
		}
		id, err := g.enroller.Reserve(spec)
		if err != nil {
			return refused(err)
		}
		if spec.APIKey == "" && g.cfg.workerKey() != "" {
			g.log.Warn("a worker was added without an api_key; it does not get the gateway's own", "worker", spec.URL, "id", id.String())
		}
		location := "/workers/" + id.String()
		return answerJSON(x, http.StatusAccepted, accepted{
			Status: "accepted", WorkerID: id.String(), URL: spec.URL, Location: location,
			Message: "Worker addition queued for background processing",
		}, pipeline.Field{Name: "Location", Value: location})
	})
}

// readAdmin reads the JSON body of a request to the worker API.
func readAdmin[T any](g *gateway, x *pipeline.Exchange, parse func([]byte) (T, error)) (v T, err error) {
	if !isJSON(x.Client.Header("Content-Type")) {
		return v, badRequest("Missing Content-Type: application/json header")
	}
	body, err := g.readAll(x)
	if err != nil {
		return v, err
	}
	if v, err = parse(body); err != nil {
		return v, badRequest(err.Error())
	}
	return v, nil
}

// readAll is the body of a request that the gateway answers itself.
func (g *gateway) readAll(x *pipeline.Exchange) ([]byte, error) {
	x.Client.SetReadTimeout(g.bodies.Stall)
	body, err := io.ReadAll(io.LimitReader(x.Client, g.cfg.MaxPayloadSize+1))
	x.Client.SetReadTimeout(0)
	switch {
	case err != nil && x.Client.Gone():
		return nil, pipeline.ErrClientGone
	case err != nil:
		return nil, forward.UploadFailure(err)
	case int64(len(body)) > g.cfg.MaxPayloadSize:
		return nil, forward.UploadTooLarge()
	}
	return body, nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// showWorker answers with one worker, registered or on its way.
func (g *gateway) showWorker() pipeline.Stage {
	return pipeline.StageFunc("show_worker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		id, err := workerID(x)
		if err != nil {
			return err
		}
		view, known := g.enroller.Describe(id)
		if !known {
			return refused(&workers.NotFoundError{ID: id})
		}
		return answerJSON(x, http.StatusOK, view)
	})
}

// removeWorker begins to drain a worker and to take it out.
func (g *gateway) removeWorker() pipeline.Stage {
	return pipeline.StageFunc("remove_worker", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		id, err := workerID(x)
		if err != nil {
			return err
		}
		if err := g.enroller.Remove(id); err != nil {
			return refused(err)
		}
		return answerJSON(x, http.StatusAccepted, accepted{
			Status: "accepted", WorkerID: id.String(), Message: "Worker removal queued for background processing",
		})
	})
}

func workerID(x *pipeline.Exchange) (workers.ID, error) {
	raw := strings.TrimSuffix(pathTail(x, "/workers/"), breakerReset)
	id, err := workers.ParseID(raw)
	if err != nil {
		return id, badRequest("Invalid worker_id '" + raw + "' (expected UUID). Error: " + err.Error())
	}
	return id, nil
}

func badRequest(message string) *pipeline.Error {
	return apiError(http.StatusBadRequest, codeBadRequest, message)
}

func apiError(status int, code, message string) *pipeline.Error {
	return &pipeline.Error{Status: status, Code: code, Message: message, Terminal: true}
}

// refused is the answer that an error of the enroller stands for.
func refused(err error) *pipeline.Error {
	switch err.(type) { //nolint:errorlint // the enroller documents these
	case *workers.NotFoundError:
		return apiError(http.StatusNotFound, codeNotFound, err.Error())
	case *workers.ExistsError:
		return apiError(http.StatusConflict, codeExists, err.Error())
	case *workers.InProgressError:
		return apiError(http.StatusConflict, codeInProgress, err.Error())
	case *workers.URLError, *workers.FieldError, *workers.MismatchError, *workers.RanksError:
		return badRequest(err.Error())
	}
	// The queue is full, or has been stopped: workers.md, section 11.
	return apiError(http.StatusInternalServerError, codeInternal, err.Error())
}
