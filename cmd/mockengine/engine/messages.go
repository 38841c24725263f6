package engine

// messages is POST /v1/messages, the Anthropic form.
var messages = &api{
	needs: givenMessages | givenMaxTokens, field: "max_tokens", replies: true,
	size:   messagesSize,
	prompt: messagesPrompt,
	body:   messagesBody,
	stream: messagesStream,
}

// countTokens is POST /v1/messages/count_tokens.
var countTokens = &api{
	needs: givenMessages, field: "messages",
	size: messagesSize,
	body: func(b []byte, a *answer, _ *Engine) []byte {
		b = append(b, `{"input_tokens":`...)
		b = appendInt(b, a.promptTokens)
		b = append(b, `,"context_management":{"original_input_tokens":`...)
		return append(appendInt(b, a.promptTokens), "}}"...)
	},
}

func messagesSize(a *ask) size {
	return size{tokens: chatTokens(a.messages, a.system), batch: 1}
}

func messagesPrompt(t *tokenizer, a *ask) { t.chat(a.messages, a.system) }

// stopReason is the finish in Anthropic's words.
func (a *answer) stopReason() string {
	if a.finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func messagesBody(b []byte, a *answer, e *Engine) []byte {
	b = a.appendMessage(b)
	b = append(b, `"content":[{"type":"text","text":"`...)
	b = append(b, e.reply.first(a.tokens)...)
	b = append(b, `"}],"stop_reason":"`...)
	b = append(b, a.stopReason()...)
	b = append(b, `","stop_sequence":null`...)
	b = a.appendMessageUsage(b)
	b = a.appendTransfer(b, e)
	return append(b, '}')
}

// appendMessage opens a message's object.
func (a *answer) appendMessage(b []byte) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.id...)
	b = append(b, `","type":"message","role":"assistant","model":"`...)
	b = append(b, a.modelName...)
	return append(b, `",`...)
}

func (a *answer) appendMessageUsage(b []byte) []byte {
	b = append(b, `,"usage":{"input_tokens":`...)
	b = appendInt(b, a.promptTokens)
	b = append(b, `,"output_tokens":`...)
	b = appendInt(b, a.tokens)
	b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	b = appendInt(b, a.cached)
	return append(b, '}')
}

// messagesStream sends named events; there is no [DONE].
func messagesStream(s *sse, a *answer, e *Engine) error {
	if err := s.ready(0); err != nil {
		return err
	}
	if err := messagesOpen(s, a); err != nil {
		return err
	}
	for k := range a.tokens {
		if err := s.token(k); err != nil {
			return err
		}
		b := append(s.named("content_block_delta"), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`...)
		b = append(b, e.reply.token(k)...)
		if err := s.end(append(b, `"}}`...)); err != nil {
			return err
		}
	}
	b := append(s.named("content_block_stop"), `{"type":"content_block_stop","index":0}`...)
	if err := s.end(b); err != nil {
		return err
	}
	b = append(s.named("message_delta"), `{"type":"message_delta","delta":{"stop_reason":"`...)
	b = append(b, a.stopReason()...)
	b = append(b, `","stop_sequence":null}`...)
	if err := s.end(append(a.appendMessageUsage(b), '}')); err != nil {
		return err
	}
	return s.end(append(s.named("message_stop"), `{"type":"message_stop"}`...))
}

func messagesOpen(s *sse, a *answer) error {
	b := append(s.named("message_start"), `{"type":"message_start","message":`...)
	b = a.appendMessage(b)
	b = append(b, `"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`...)
	b = appendInt(b, a.promptTokens)
	if err := s.end(append(b, `,"output_tokens":0}}}`...)); err != nil {
		return err
	}
	return s.end(append(s.named("content_block_start"),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`...))
}
