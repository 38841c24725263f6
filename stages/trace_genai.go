package stages

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// operationOf is gen_ai.operation.name for a route, by its path: the convention's own names where it has one.
func operationOf(path string) string {
	switch endpoint := telemetry.EndpointOf(path); endpoint {
	case telemetry.LabelOther:
		return ""
	case telemetry.EndpointChat, telemetry.EndpointMessages, telemetry.EndpointResponses:
		return "chat"
	case telemetry.EndpointCompletions, telemetry.EndpointGenerate:
		return "text_completion"
	default:
		return endpoint
	}
}

// nameOfLeg is the name of the span of a request to a worker.
func (t *tracer) nameOfLeg(x *pipeline.Exchange) string {
	switch {
	case t.operation == "":
		return t.method
	case x.Asked == "":
		return t.operation
	}
	return t.operation + " " + x.Asked
}

// describeInference says what was asked of the model: settings, never content.
func (t *tracer) describeInference(s *telemetry.Attributes, x *pipeline.Exchange, leg *pipeline.Leg) {
	if t.operation == "" {
		return
	}
	s.Text("gen_ai.operation.name", t.operation)
	s.Text("gen_ai.provider.name", leg.Worker.Spec().RuntimeType.String())
	s.Text("gen_ai.request.model", x.Asked)
	body := x.Body.Bytes
	f := bodyFields.Fill(x)
	for _, p := range inferenceNumbers {
		if !f.has(p.field) { // else an error is made, which costs more than all the rest
			continue
		}
		if n, err := strconv.ParseInt(string(f.raw(body, p.field)), 10, 64); err == nil {
			s.Number(p.key, n)
		}
	}
	for _, p := range inferenceFractions {
		if !f.has(p.field) {
			continue
		}
		if n, err := strconv.ParseFloat(string(f.raw(body, p.field)), 64); err == nil {
			s.Fraction(p.key, n)
		}
	}
	if n, ok := fieldInt(body, f, fieldN); ok && n != 1 {
		s.Number("gen_ai.request.choice.count", int64(n))
	}
	s.Texts("gen_ai.request.stop_sequences", stopsOf(f.raw(body, fieldStop)))
	if conversation, ok := fieldString(body, f, fieldConversation); ok {
		s.Text("gen_ai.conversation.id", conversation)
	}
	if format := f.raw(body, fieldResponseFormat); bytes.Contains(format, []byte(`"json_`)) {
		s.Text("gen_ai.output.type", "json")
	}
}

type inferenceField struct {
	field field
	key   string
}

var (
	inferenceNumbers = []inferenceField{
		{fieldMaxTokens, "gen_ai.request.max_tokens"},
		{fieldMaxCompletionTokens, "gen_ai.request.max_tokens"},
		{fieldMaxOutputTokens, "gen_ai.request.max_tokens"},
		{fieldSeed, "gen_ai.request.seed"},
	}
	inferenceFractions = []inferenceField{
		{fieldTemperature, "gen_ai.request.temperature"},
		{fieldTopP, "gen_ai.request.top_p"},
		{fieldTopK, "gen_ai.request.top_k"},
		{fieldFrequencyPenalty, "gen_ai.request.frequency_penalty"},
		{fieldPresencePenalty, "gen_ai.request.presence_penalty"},
	}
)

// describeInferred says what the model answered, as far as the end of the answer tells.
func describeInferred(s *telemetry.Attributes, leg *pipeline.Leg, body []byte) {
	if leg.Usage.InputTokens > 0 {
		s.Number("gen_ai.usage.input_tokens", leg.Usage.InputTokens)
	}
	if leg.Usage.OutputTokens > 0 {
		s.Number("gen_ai.usage.output_tokens", leg.Usage.OutputTokens)
	}
	if len(body) > inspected {
		return
	}
	var id, model string
	var reasons []string
	for doc := range lastDocuments(body) {
		a := readAnswer(doc)
		id, model = cmp.Or(id, a.id), cmp.Or(model, a.model)
		if len(reasons) == 0 {
			reasons = a.reasons()
		}
	}
	s.Text("gen_ai.response.id", id)
	s.Text("gen_ai.response.model", model)
	s.Texts("gen_ai.response.finish_reasons", reasons)
}

// stopsOf are the stop sequences of a request: a string, or an array of them.
func stopsOf(value []byte) (stops []string) {
	if one, ok := stringOf(value); ok {
		return []string{one}
	}
	if len(value) == 0 {
		return nil
	}
	eachElement(value, 0, func(i int) int {
		end := skipFast(value, i)
		if one, ok := stringOf(value[i:end]); ok {
			stops = append(stops, one)
		}
		return end
	})
	return stops
}
