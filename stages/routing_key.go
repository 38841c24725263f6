package stages

import (
	"github.com/smg-go/smg/pipeline"
)

// RoutingKey reads the key that keeps related requests together: the value of the first of the headers that holds 1 to 128
// bytes of UTF-8. Other values are skipped, never refused.
func RoutingKey(headers []string) pipeline.Stage {
	return &routingKeyStage{pipeline.CanonicalNames(headers)}
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
	if v := firstKey(x.Client, s.headers); v != "" {
		x.Key = pipeline.RoutingKey{Value: v, Source: pipeline.HeaderKey}
	}
	return next(x)
}

// firstKey is the value of the first header that is fit for a key; "" if none is.
func firstKey(c pipeline.Client, headers []string) string {
	for _, name := range headers {
		if v := c.Header(name); validRoutingKey(v) {
			return v
		}
	}
	return ""
}
