package server

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
)

// explainedByDefault is the route that POST /explain explains if it is not told another one.
const explainedByDefault = "POST /v1/chat/completions"

// explain answers what would become of a request, without sending it: it takes the body and the headers through the chain of the
// route in ?route= up to the choice of a worker, as a dry run. Nothing is booked, counted or recorded, and no worker is asked. The
// answer is 200 as soon as there is such a route; what the request itself would be refused with is part of it.
func (g *gateway) explain() pipeline.Stage {
	return pipeline.StageFunc("explain", pipeline.Contract{Needs: []pipeline.Fact{pipeline.RequestID}}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		chain, err := g.explained(x.Client.Query())
		if err != nil {
			return err
		}
		body, err := g.readAll(x)
		if err != nil {
			return err
		}
		return answerJSON(x, http.StatusOK, g.rehearse(chain, x, body))
	})
}

// explained is the chain that a query asks for, as it is served now, up to the choice. Its route may be given as a path alone.
func (g *gateway) explained(query string) (*pipeline.Chain, error) {
	route := explainedByDefault
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("The query is malformed")
	}
	if asked := values.Get("route"); asked != "" {
		route = asked
	}
	if strings.HasPrefix(route, "/") {
		route = http.MethodPost + " " + route
	}
	var there []string
	for _, c := range *g.served.Load() {
		if !hasStage(c, "policy") {
			continue
		}
		if c.Route() == route {
			return rehearsal(c)
		}
		there = append(there, c.Route())
	}
	return nil, badRequest(fmt.Sprintf("No worker is chosen on the route '%s', so there is nothing to explain; routes where one is: %s", route, strings.Join(there, ", ")))
}

// unrehearsed are the stages that a rehearsal goes without: those that count, log, let in, or try again. Whoever may ask for one is
// the business of the route that is asked.
var unrehearsed = []string{"access_log", "http_metrics", "auth", "tenant", "admission", "account", "retry", "request_id"}

// rehearsal is a chain up to its choice of a worker. A stage that others cannot do without stays; it knows of dry runs.
func rehearsal(c *pipeline.Chain) (*pipeline.Chain, error) {
	c, err := c.Until("policy")
	if err != nil {
		return nil, err
	}
	for _, name := range unrehearsed {
		if !hasStage(c, name) {
			continue
		}
		if without, err := c.Without(name); err == nil {
			c = without
		}
	}
	return c, nil
}

func hasStage(c *pipeline.Chain, name string) bool {
	return slices.ContainsFunc(c.Stages(), func(s pipeline.Stage) bool { return s.Name() == name })
}

// rehearse takes the request of x through a chain without consequences.
func (g *gateway) rehearse(chain *pipeline.Chain, x *pipeline.Exchange, body []byte) stages.Explanation {
	method, path, _ := strings.Cut(chain.Route(), " ")
	dry := &pipeline.Exchange{
		Client: &rehearser{Client: x.Client, method: method, path: path, body: bytes.NewReader(body), length: int64(len(body))},
		ID:     x.ID, Explain: &pipeline.Explanation{}, DryRun: true,
	}
	dry.BeginAttempt()
	err := chain.Run(dry)
	answer := stages.NewExplanation(chain.Route(), dry, err)
	if answer.Policy == "" && dry.Pool.Len() > 0 {
		answer.Policy = g.policies.For(dry.Model).Name()
	}
	if cause := pipeline.AsError(err); err != nil && cause.Cause != nil {
		g.log.Error("a request could not be explained", "request_id", x.ID, "route", chain.Route(), "cause", cause.Cause)
	}
	return answer
}
