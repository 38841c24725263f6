package stages

import "github.com/smg-go/smg/pipeline"

// Withhold keeps the gateway's own credentials from workers, on routes that ask for none: clients send what they have everywhere.
// own tells which tokens those are; nil stands for whatever the client sends. A worker then gets its own key.
//
// It stands before forward.
func Withhold(own func(token string) bool) pipeline.Stage { return &withhold{own} }

type withhold struct{ own func(token string) bool }

var _ pipeline.Stage = (*withhold)(nil)

func (*withhold) Name() string { return "withhold" }

func (s *withhold) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	x.Withheld = s.own == nil
	if token, sent := bearerOf(x.Client); sent && s.own != nil {
		x.Withheld = s.own(token)
	}
	return next(x)
}
