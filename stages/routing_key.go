package stages

import (
	"net/textproto"

	"github.com/smg-go/smg/pipeline"
)

// RoutingKey reads the key that keeps related requests together: the value of the first of the headers that holds 1 to 128
// bytes of UTF-8. Other values are skipped, never refused.
func RoutingKey(headers []string) pipeline.Stage {
	s := &routingKeyStage{}
	for _, name := range headers {
		s.headers = append(s.headers, textproto.CanonicalMIMEHeaderKey(name))
	}
	return s
}

type routingKeyStage struct{ headers []string }

var (
	_ pipeline.Stage      = (*routingKeyStage)(nil)
	_ pipeline.Contracted = (*routingKeyStage)(nil)
)

func (*routingKeyStage) Name() string { return "routing_key" }

func (*routingKeyStage) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{pipeline.Key}}
}

func (s *routingKeyStage) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	for _, name := range s.headers {
		if v := x.Client.Header(name); validRoutingKey(v) {
			x.Key = pipeline.RoutingKey{Value: v, Source: pipeline.HeaderKey}
			break
		}
	}
	return next(x)
}
