package engine

// generate is POST /generate, SGLang's own route. vLLM has none; it is answered there too, because gateways send it.
var generate = &api{
	needs: givenText, field: "text", replies: true,
	size:   generateSize,
	prompt: func(t *tokenizer, a *ask) { t.prompt(generatePrompt(a)) },
	body:   generateBody,
	stream: generateStream,
}

func generateSize(a *ask) size {
	return measure(generatePrompt(a))
}

// generatePrompt prefers the ids, as SGLang does.
func generatePrompt(a *ask) []byte {
	if len(a.inputIDs) > 0 {
		return a.inputIDs
	}
	return a.text
}

// isBatch tells whether the prompt is a list, which is answered with a list.
func (a *answer) isBatch() bool {
	prompt := a.inputIDs
	if len(prompt) == 0 {
		return len(a.text) > 0 && a.text[0] == '['
	}
	i := skipSpace(prompt, 1)
	return prompt[0] == '[' && i < len(prompt) && prompt[i] == '['
}

func generateBody(b []byte, a *answer, e *Engine) []byte {
	if !a.isBatch() {
		return append(a.appendGenerated(b, e, a.tokens, a.finish), '}')
	}
	b = append(b, '[')
	for i := range a.batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(a.appendGenerated(b, e, a.tokens, a.finish), '}')
	}
	return append(b, ']')
}

// generateStream sends the text so far with each token; with the last, the finish reason. In a batch each has its index.
func generateStream(s *sse, a *answer, e *Engine) error {
	replies := 1
	if a.isBatch() {
		replies = a.batch
	}
	for k := range a.tokens {
		finish := ""
		if k == a.tokens-1 {
			finish = a.finish
		}
		for i := range replies {
			if err := s.token(k); err != nil {
				return err
			}
			b := a.appendGenerated(s.begin(), e, k+1, finish)
			if a.isBatch() {
				b = append(b, `,"index":`...)
				b = appendInt(b, i)
			}
			if err := s.end(append(b, '}')); err != nil {
				return err
			}
		}
	}
	return s.end(append(s.begin(), "[DONE]"...))
}

// appendGenerated appends an object without its closing brace.
func (a *answer) appendGenerated(b []byte, e *Engine, tokens int, finish string) []byte {
	b = append(b, `{"text":"`...)
	b = append(b, e.reply.first(tokens)...)
	b = append(b, `","meta_info":{"id":"`...)
	b = append(b, a.id...)
	b = append(b, `","finish_reason":`...)
	b = a.appendFinish(b, finish)
	b = append(b, `,"prompt_tokens":`...)
	b = appendInt(b, a.promptTokens)
	b = append(b, `,"completion_tokens":`...)
	b = appendInt(b, tokens)
	b = append(b, `,"cached_tokens":`...)
	b = appendInt(b, a.cached)
	b = append(b, `,"weight_version":"default"`...)
	if a.logprobs {
		b = append(b, `,"input_token_logprobs":`...)
		b = appendLogprobs(b, a.promptTokens, "-0.2")
		b = append(b, `,"output_token_logprobs":`...)
		b = appendLogprobs(b, tokens, "-0.1")
	}
	return append(b, '}')
}

func (a *answer) appendFinish(b []byte, finish string) []byte {
	switch finish {
	case "":
		return append(b, "null"...)
	case "length":
		b = append(b, `{"type":"length","length":`...)
		return append(appendInt(b, a.tokens), '}')
	}
	return append(b, `{"type":"stop","matched":2}`...)
}

func appendLogprobs(b []byte, tokens int, logprob string) []byte {
	b = append(b, '[')
	for id := range tokens {
		if id > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = append(b, logprob...)
		b = append(b, ',')
		b = appendInt(b, id)
		b = append(b, ",null]"...)
	}
	return append(b, ']')
}
