package stages

import (
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// Forwarding completes the settings of the forward stage with what the kind of a request asks for: another path at the worker,
// another answer, another dialect of event streams.
func Forwarding(s forward.Settings, kind Kind) forward.Settings {
	switch kind {
	case Rerank, V1Rerank:
		s.Path, s.Reshape = rerankPath, rerankAnswer
	case Messages, CountTokens:
		s.Dialect = forward.AnthropicStream
	}
	return s
}

func rerankAnswer(x *pipeline.Exchange, worker []byte) ([]byte, *pipeline.Error) {
	return rerankRequestOf(x.Body.Bytes, bodyFields.Fill(x), modelName(x)).answer(worker, time.Now())
}

func modelName(x *pipeline.Exchange) string {
	if x.Model == "" {
		return anyModel
	}
	return x.Model
}
