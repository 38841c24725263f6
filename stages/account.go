package stages

import (
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Account counts routed requests by model: each once, however many attempts it takes, with its time to the head, and for a
// stream the times to its first event and to its end, and the tokens that the worker counted. It stands before the retry
// stage.
func Account(endpoint string, m *telemetry.Metrics) pipeline.Stage {
	return &account{endpoint: endpoint, metrics: m}
}

type account struct {
	endpoint string
	metrics  *telemetry.Metrics
}

var (
	_ pipeline.Stage      = (*account)(nil)
	_ pipeline.Contracted = (*account)(nil)
)

func (*account) Name() string { return "account" }

func (*account) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Body, pipeline.Model}}
}

// errPanicked is the end of a request behind a stage that did not return.
var errPanicked = &pipeline.Error{Status: http.StatusInternalServerError, Code: "internal_error", Terminal: true}

func (s *account) Handle(x *pipeline.Exchange, next pipeline.Next) (err error) {
	series := s.metrics.Router.Series(s.metrics.ModelLabel(x.Model, x.Served), s.endpoint)
	if !x.Body.Streamed { // else only the answer tells whether it was asked for as a stream
		series.Requests(x.Body.Stream).Inc()
	}
	began := time.Now()
	err = errPanicked
	defer func() { s.settle(x, series, began, err) }() // deferred: a panic is an end as well
	err = next(x)
	return err
}

func (s *account) settle(x *pipeline.Exchange, series *telemetry.RouterSeries, began time.Time, err error) {
	leg := x.Legs.Last()
	if leg != nil && leg.Blocked > 0 {
		s.metrics.Router.Backpressure(s.endpoint).Add(leg.Blocked.Seconds())
	}
	if x.Body.Streamed {
		series.Requests(leg != nil && leg.Streamed).Inc()
	}
	status, code := x.Result(err)
	failed := status < 200 || status > 299 || err != nil
	if code != pipeline.ErrClientGone.Code {
		series.Attempts(x.Number, failed)
	}
	if failed {
		if code != pipeline.ErrClientGone.Code {
			series.Errors(telemetry.ErrorTypeOf(status, code)).Inc()
		}
		return
	}
	e := exemplar.Get(x)
	e.Observe(series.Duration, x.HeadAt().Sub(began).Seconds())
	if leg == nil {
		return
	}
	series.Tokens(leg.Usage.InputTokens, leg.Usage.OutputTokens)
	if leg.Streamed {
		first := time.Duration(0)
		if !leg.FirstEvent.IsZero() {
			first = leg.FirstEvent.Sub(leg.Sent)
			series.ClientTTFT(leg.FirstEvent.Sub(x.Arrived), e)
		}
		series.Stream(first, time.Since(leg.Sent), leg.Usage.OutputTokens, e)
	}
}
