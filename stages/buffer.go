package stages

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// Buffering is what routes share to decide whether a body is read before a worker is chosen.
type Buffering struct {
	Registry     *workers.Registry
	Demand       *pipeline.Demand
	Metrics      *telemetry.Metrics
	ManyModels   bool  // models are told apart by the body always (--enable-igw)
	Sticky       bool  // the routing key may be in the body (--routing-key-override)
	Retries      bool  // a request may have more than one attempt; the workers of a model may ask for it too
	RetriedBytes int64 // largest body that is kept for the sake of retries alone
}

// Buffer decides, before a byte of the body is read, whether it is read into memory or goes to the worker as it comes. It is
// streamed only if nothing needs it: no sticky sessions, no policy that reads prompts, one model, no edit, no retry, and a declared
// length. A kind of body that never streams is always read, and not counted.
func Buffer(b *Buffering, kind Kind) pipeline.Stage {
	s := &buffer{Buffering: b, kind: kind}
	for reason, path := range bodyPaths {
		s.counts[reason] = b.Metrics.Router.BodyPath(path.path, path.reason)
	}
	return s
}

type buffer struct {
	*Buffering
	kind   Kind
	counts [reasonCount]prometheus.Counter
}

// reason is why a body goes the way it goes.
type reason int

const (
	manyModels reason = iota
	routingKeyOverride
	policyNeedsText
	modelAmbiguous
	bodyEdited
	noContentLength
	retryable
	noAvailableWorker
	retryForfeited
	pureForward
	reasonCount
)

var bodyPaths = [reasonCount]struct{ path, reason string }{
	manyModels:         {"buffered", "model_selection"},
	routingKeyOverride: {"buffered", "routing_key_override"},
	policyNeedsText:    {"buffered", "policy_needs_text"},
	modelAmbiguous:     {"buffered", "model_ambiguous"},
	bodyEdited:         {"buffered", "worker_mutates_body"},
	noContentLength:    {"buffered", "no_content_length"},
	retryable:          {"buffered", "retryable"},
	noAvailableWorker:  {"buffered", "no_available_worker"},
	retryForfeited:     {"streamed", "retry_forfeited"},
	pureForward:        {"streamed", "pure_forward"},
}

var (
	_ pipeline.Stage      = (*buffer)(nil)
	_ pipeline.Contracted = (*buffer)(nil)
)

func (*buffer) Name() string { return "buffer" }

func (*buffer) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{pipeline.BodyPath}}
}

func (s *buffer) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if s.kind.mayStream() {
		why := s.decide(x.Client)
		x.Body.Reason = bodyPaths[why].reason
		x.Body.Streamed = why == retryForfeited || why == pureForward
		if !x.DryRun {
			s.counts[why].Inc()
		}
	}
	return next(x)
}

// decide follows the documented order; the first rule that applies wins.
func (s *buffer) decide(c pipeline.Client) reason {
	length := c.ContentLength()
	retries := s.Retries || s.Registry.Retried()
	switch {
	case s.ManyModels:
		return manyModels
	case s.Sticky:
		return routingKeyOverride
	case s.Demand.Text() && !hinted(c):
		return policyNeedsText
	case s.Registry.ModelCount() > 1:
		return modelAmbiguous
	case s.Registry.Aliased(), s.Registry.Ranked():
		return bodyEdited
	case length < 0:
		return noContentLength
	case retries && length <= s.RetriedBytes:
		return retryable
	case !s.Registry.Pool("", workers.Regular, workers.HTTP).Any((*workers.Worker).Available):
		return noAvailableWorker
	case retries:
		return retryForfeited
	}
	return pureForward
}

// hinted tells whether the client has sent token ids to route by.
func hinted(c pipeline.Client) bool {
	_, ok := parseTokensHint(c.Header("X-Smg-Routing-Tokens"), nil)
	return ok
}
