package stages

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// PayloadLimit refuses a request whose declared body is larger than maxBytes, before anything else looks at it: 413. A body
// without a declared length is limited while it is read, by the stages that read it. Exactly maxBytes is accepted.
func PayloadLimit(maxBytes int64) pipeline.Stage { return &payloadLimit{maxBytes} }

type payloadLimit struct{ maxBytes int64 }

var _ pipeline.Stage = (*payloadLimit)(nil)

func (*payloadLimit) Name() string { return "payload_limit" }

func (s *payloadLimit) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.Client.ContentLength() > s.maxBytes {
		return forward.UploadTooLarge()
	}
	return next(x)
}
