package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// model is one entry of GET /v1/models.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func modelCard(id string) model { return model{ID: id, Object: "model", OwnedBy: "self_hosted"} }

// listModels answers with the models that registered workers serve, by their canonical ids, sorted. No worker is asked.
func (g *gateway) listModels() pipeline.Stage {
	return pipeline.StageFunc("list_models", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		ids := g.registry.Models()
		if len(ids) == 0 {
			return &pipeline.Error{
				Status: http.StatusServiceUnavailable, Code: "no_models_available", Message: "No models available", Terminal: true,
			}
		}
		data := make([]model, 0, len(ids))
		for _, id := range ids {
			data = append(data, modelCard(id))
		}
		return answerJSON(x, http.StatusOK, struct {
			Object string  `json:"object"`
			Data   []model `json:"data"`
		}{"list", data})
	})
}

// showModel answers with one model; asked by an alias, with the canonical one.
func (g *gateway) showModel() pipeline.Stage {
	return pipeline.StageFunc("show_model", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		name := pathTail(x, "/v1/models/")
		id, known := g.registry.Resolve(name)
		if !known {
			return &pipeline.Error{
				Status: http.StatusNotFound, Code: "model_not_found", Message: "No worker available for model '" + name + "'", Terminal: true,
			}
		}
		return answerJSON(x, http.StatusOK, modelCard(id))
	})
}

// pathTail is what stands behind a route's fixed part, unescaped.
func pathTail(x *pipeline.Exchange, fixed string) string {
	tail := strings.TrimPrefix(x.Client.Path(), fixed)
	if plain, err := url.PathUnescape(tail); err == nil {
		return plain
	}
	return tail
}
