package engine

// completions is POST /v1/completions. A batch has a choice for each prompt.
var completions = &api{
	needs: givenPrompt, field: "prompt", replies: true,
	size:   func(a *ask) size { return measure(a.prompt) },
	prompt: func(t *tokenizer, a *ask) { t.prompt(a.prompt) },
	body:   completionBody,
	stream: completionStream,
}

func completionBody(b []byte, a *answer, e *Engine) []byte {
	b = a.appendIdentity(b, "text_completion")
	b = append(b, `,"choices":[`...)
	for i := range a.choices() {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.appendCompletion(b, i, e.reply.first(a.tokens), a.finish)
	}
	b = append(b, ']')
	b = a.appendUsage(b)
	b = a.appendTransfer(b, e)
	return append(b, '}')
}

// completionStream sends one chunk for each token, the last with the finish reason, then usage if asked for and [DONE].
func completionStream(s *sse, a *answer, e *Engine) error {
	for k := range a.tokens {
		finish := ""
		if k == a.tokens-1 {
			finish = a.finish
		}
		for i := range a.choices() {
			if err := s.token(k); err != nil {
				return err
			}
			b := a.appendIdentity(s.begin(), "text_completion")
			b = append(b, `,"choices":[`...)
			b = a.appendCompletion(b, i, e.reply.token(k), finish)
			if err := s.end(append(b, "]}"...)); err != nil {
				return err
			}
		}
	}
	return endOpenAI(s, a, "text_completion")
}

func (a *answer) appendCompletion(b []byte, choice int, text, finish string) []byte {
	b = append(b, `{"index":`...)
	b = appendInt(b, choice)
	b = append(b, `,"text":"`...)
	b = append(b, text...)
	b = append(b, `","logprobs":null,"finish_reason":`...)
	b = appendQuotedOrNull(b, finish)
	return append(b, '}')
}
