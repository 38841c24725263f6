package stages

import (
	"strings"
	"unicode/utf8"

	"github.com/smg-go/smg/pipeline"
)

// Prompt finds out what policies may know of a prompt: the token ids that the client sent along to route by, else those of the
// body, else its text. Token ids win over text, and only one of them is produced. What is not UTF-8 in a text is U+FFFD. While no live policy reads prompts it does
// nothing.
func Prompt(demand *pipeline.Demand, kind Kind) pipeline.Stage { return &promptStage{demand, kind} }

type promptStage struct {
	demand *pipeline.Demand
	kind   Kind
}

var (
	_ pipeline.Stage      = (*promptStage)(nil)
	_ pipeline.Contracted = (*promptStage)(nil)
)

func (*promptStage) Name() string { return "prompt" }

func (*promptStage) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Body, bodyFields},
		Gives: []pipeline.Fact{pipeline.Prompt},
	}
}

func (s *promptStage) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if s.demand.TextIfRead() || s.demand.Tokens() {
		x.Prompt = s.read(x)
		if !x.Body.Streamed {
			x.Prompt.Partition = promptPartition(s.kind, x.Body.Bytes, bodyFields.Fill(x))
		}
	}
	return next(x)
}

func (s *promptStage) read(x *pipeline.Exchange) pipeline.RoutingPrompt {
	if tokens, ok := parseTokensHint(x.Client.Header("X-Smg-Routing-Tokens"), nil); ok {
		return pipeline.RoutingPrompt{Tokens: tokens, Hinted: true}
	}
	if x.Body.Streamed {
		return pipeline.RoutingPrompt{}
	}
	f := bodyFields.Fill(x)
	if tokens := promptTokens(s.kind, x.Body.Bytes, f); len(tokens) > 0 {
		return pipeline.RoutingPrompt{Tokens: tokens}
	}
	if !s.demand.TextIfRead() {
		return pipeline.RoutingPrompt{}
	}
	text := promptText(s.kind, x.Body.Bytes, f)
	if !utf8.ValidString(text) { // which is ten times as fast to find out as ToValidUTF8 does
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return pipeline.RoutingPrompt{Text: text}
}
