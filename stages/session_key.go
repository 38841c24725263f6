package stages

import "github.com/smg-go/smg/pipeline"

// SessionKey is [RoutingKey] for sticky sessions, and stands in its place: the rid of the body comes before the headers, and of
// either the suffixes are taken off that number turns and retries, so that all requests of a conversation have one key. Policies that
// hash the header find it as it was sent. The body must have been read.
func SessionKey(headers []string, kind Kind) pipeline.Stage {
	return &sessionKeyStage{pipeline.CanonicalNames(headers), kind}
}

type sessionKeyStage struct {
	headers []string
	kind    Kind
}

var (
	_ pipeline.Stage      = (*sessionKeyStage)(nil)
	_ pipeline.Contracted = (*sessionKeyStage)(nil)
)

func (*sessionKeyStage) Name() string { return "routing_key" }

func (*sessionKeyStage) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Body, bodyFields},
		Gives: []pipeline.Fact{pipeline.Key},
	}
}

func (s *sessionKeyStage) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	sent := firstKey(x.Client, s.headers)
	if rid, ok := ridOf(s.kind, x.Body.Bytes, bodyFields.Fill(x)); ok {
		x.Key = pipeline.RoutingKey{Value: rid, Source: pipeline.RIDKey, Sent: sent}
	} else if sent != "" {
		x.Key = pipeline.RoutingKey{Value: stripTurn(sent), Source: pipeline.HeaderKey, Sent: sent}
	}
	return next(x)
}
