package main

import (
	"encoding/json"
	"net/http"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/workers"
)

// routes are the routes of the gateway that pick here. The others are as they were: models, probes and workers.
var routes = []string{
	"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/responses", "POST /v1/messages", "POST /v1/embeddings", "POST /generate",
}

// picking makes a chain that picks of the one that forwards.
func picking(g *server.Gateway, route string) (*pipeline.Chain, error) {
	chain, err := g.Chain(route)
	if err == nil {
		chain, err = chain.Without("retry")
	}
	if err == nil {
		chain, err = chain.Without("in_flight")
	}
	if err == nil {
		chain, err = chain.Before("candidates", explain())
	}
	if err == nil {
		chain, err = chain.Replace("forward", pick())
	}
	return chain, err
}

// explain makes a request with ?explain a dry run that takes notes.
func explain() pipeline.Stage {
	return pipeline.StageFunc("explain", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
		if x.Client.Query() == "explain" {
			x.Explain, x.DryRun = &pipeline.Explanation{}, true
		}
		return next(x)
	})
}

// choice is the answer. It names workers by their URLs, so a picker is for the proxies of the house, not for clients.
type choice struct {
	Worker  chosen    `json:"worker"`
	DryRun  bool      `json:"dry_run,omitempty"`
	LeftOut []leftOut `json:"left_out,omitempty"`
	Scores  []score   `json:"scores,omitempty"`
}

type chosen struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Model string `json:"model,omitempty"`
}

type leftOut struct {
	URL    string `json:"url"`
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
}

type score struct {
	URL   string  `json:"url"`
	Value float64 `json:"value"`
}

// pick answers with the worker that the stages before it have chosen.
func pick() pipeline.Stage {
	contract := pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}
	return pipeline.StageFunc("pick", contract, func(x *pipeline.Exchange, _ pipeline.Next) error {
		body, err := json.Marshal(choiceOf(x, x.Target()))
		if err != nil {
			return err
		}
		if err := x.WriteHead(http.StatusOK, int64(len(body)), []pipeline.Field{{Name: "Content-Type", Value: "application/json"}}); err != nil {
			return pipeline.ErrClientGone
		}
		if _, err := x.Client.Write(body); err != nil {
			return pipeline.ErrClientGone
		}
		return nil
	})
}

func choiceOf(x *pipeline.Exchange, w *workers.Worker) choice {
	c := choice{Worker: chosen{w.ID().String(), w.URL(), w.Model()}, DryRun: x.DryRun}
	if x.Explain == nil {
		return c
	}
	for _, l := range x.Explain.LeftOut {
		c.LeftOut = append(c.LeftOut, leftOut{l.Worker.URL(), l.Stage, l.Reason})
	}
	for _, s := range x.Explain.Scores {
		c.Scores = append(c.Scores, score{s.Worker.URL(), s.Value})
	}
	return c
}
