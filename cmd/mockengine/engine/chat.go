package engine

// chat is POST /v1/chat/completions.
var chat = &api{
	needs: givenMessages, field: "messages", replies: true,
	size:   func(a *ask) size { return size{tokens: chatTokens(a.messages, nil), batch: 1} },
	prompt: func(t *tokenizer, a *ask) { t.chat(a.messages, nil) },
	body:   chatBody,
	stream: chatStream,
}

func chatBody(b []byte, a *answer, e *Engine) []byte {
	b = a.appendIdentity(b, "chat.completion")
	b = append(b, `,"choices":[`...)
	for i := range a.choices() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = appendInt(b, i)
		b = append(b, `,"message":{"role":"assistant","content":"`...)
		b = append(b, e.reply.first(a.tokens)...)
		b = append(b, `","refusal":null,"tool_calls":null},"logprobs":null,"finish_reason":"`...)
		b = append(b, a.finish...)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	b = a.appendUsage(b)
	b = a.appendTransfer(b, e)
	return append(b, '}')
}

// chatStream sends a chunk with the role, one for each token, one with the finish reason, one with the usage if asked for, [DONE].
func chatStream(s *sse, a *answer, e *Engine) error {
	if err := s.ready(0); err != nil {
		return err
	}
	if err := chatChunks(s, a, `"delta":{"role":"assistant","content":""}`, ""); err != nil {
		return err
	}
	for k := range a.tokens {
		for i := range a.choices() {
			if err := s.token(k); err != nil {
				return err
			}
			b := a.chatChunk(s.begin(), i)
			b = append(b, `"delta":{"content":"`...)
			b = append(b, e.reply.token(k)...)
			b = append(b, `"},"logprobs":null,"finish_reason":null}]}`...)
			if err := s.end(b); err != nil {
				return err
			}
		}
	}
	if err := chatChunks(s, a, `"delta":{}`, a.finish); err != nil {
		return err
	}
	return endOpenAI(s, a, "chat.completion.chunk")
}

// chatChunks sends one chunk for each choice; an empty finish is null.
func chatChunks(s *sse, a *answer, delta, finish string) error {
	for i := range a.choices() {
		b := append(a.chatChunk(s.begin(), i), delta...)
		b = append(b, `,"logprobs":null,"finish_reason":`...)
		b = append(appendQuotedOrNull(b, finish), "}]}"...)
		if err := s.end(b); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) chatChunk(b []byte, choice int) []byte {
	b = a.appendIdentity(b, "chat.completion.chunk")
	b = append(b, `,"choices":[{"index":`...)
	b = appendInt(b, choice)
	return append(b, ',')
}

// endOpenAI ends a stream of the OpenAI shapes.
func endOpenAI(s *sse, a *answer, object string) error {
	if a.usage {
		b := a.appendIdentity(s.begin(), object)
		b = append(b, `,"choices":[]`...)
		if err := s.end(append(a.appendUsage(b), '}')); err != nil {
			return err
		}
	}
	return s.end(append(s.begin(), "[DONE]"...))
}

func appendQuotedOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
