package engine

import "strconv"

// responses is POST /v1/responses. Nothing is stored.
var responses = &api{
	needs: givenInput, field: "input", replies: true,
	size:   func(a *ask) size { return size{tokens: chatTokens(a.inputs, a.instructions), batch: 1} },
	prompt: func(t *tokenizer, a *ask) { t.chat(a.inputs, a.instructions) },
	body:   func(b []byte, a *answer, e *Engine) []byte { return a.appendResponse(b, e, a.responseStatus()) },
	stream: responsesStream,
}

// inProgress is the status of a response that has just begun.
const inProgress = "in_progress"

func (a *answer) responseStatus() string {
	if a.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (a *answer) appendResponse(b []byte, e *Engine, status string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.id...)
	b = append(b, `","object":"response","created_at":`...)
	b = strconv.AppendInt(b, a.created, 10)
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","background":false,"error":null,"incomplete_details":`...)
	if status == "incomplete" {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"instructions":null,"metadata":null,"model":"`...)
	b = append(b, a.modelName...)
	b = append(b, `","output":[`...)
	if status != inProgress {
		b = a.appendItem(b, e, "completed")
	}
	b = append(b, `],"parallel_tool_calls":true,"previous_response_id":null,"service_tier":"auto","temperature":1.0,"text":null,`...)
	b = append(b, `"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":`...)
	if status == inProgress {
		return append(b, "null}"...)
	}
	b = append(a.appendResponseUsage(b), '}')
	if a.remoteDecode {
		b = append(a.appendTransfer(b[:len(b)-1], e), '}')
	}
	return b
}

// appendItem appends the one output item: whole, or empty while it is in progress.
func (a *answer) appendItem(b []byte, e *Engine, status string) []byte {
	b = append(b, `{"id":"`...)
	b = a.appendItemID(b)
	b = append(b, `","type":"message","role":"assistant","status":"`...)
	b = append(b, status...)
	b = append(b, `","content":[`...)
	if status != inProgress {
		b = appendOutputText(b, e.reply.first(a.tokens))
	}
	return append(b, "]}"...)
}

func (a *answer) appendItemID(b []byte) []byte { return append(append(b, "msg_"...), a.id...) }

func appendOutputText(b []byte, text string) []byte {
	b = append(b, `{"type":"output_text","text":"`...)
	b = append(b, text...)
	return append(b, `","annotations":[],"logprobs":[]}`...)
}

func (a *answer) appendResponseUsage(b []byte) []byte {
	b = append(b, `{"input_tokens":`...)
	b = appendInt(b, a.promptTokens)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = appendInt(b, a.cached)
	b = append(b, `},"output_tokens":`...)
	b = appendInt(b, a.tokens)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	return append(appendInt(b, a.promptTokens+a.tokens), '}')
}

// responseEvents numbers the events of one stream.
type responseEvents struct {
	*sse
	a    *answer
	next int
}

// send sends an event; fill appends its members before the number and the type, each with a comma behind it.
func (r *responseEvents) send(event string, fill func(b []byte) []byte) error {
	b := fill(append(r.named(event), '{'))
	b = append(b, `"sequence_number":`...)
	b = appendInt(b, r.next)
	b = append(b, `,"type":"`...)
	b = append(b, event...)
	r.next++
	return r.end(append(b, `"}`...))
}

// place appends where in the output a part of the text belongs.
func (r *responseEvents) place(b []byte) []byte {
	b = append(b, `"item_id":"`...)
	b = r.a.appendItemID(b)
	return append(b, `","output_index":0,"content_index":0,`...)
}

func responsesStream(s *sse, a *answer, e *Engine) error {
	if err := s.ready(0); err != nil {
		return err
	}
	r := &responseEvents{sse: s, a: a}
	if err := r.open(e); err != nil {
		return err
	}
	for k := range a.tokens {
		if err := s.token(k); err != nil {
			return err
		}
		err := r.send("response.output_text.delta", func(b []byte) []byte {
			b = append(r.place(b), `"logprobs":[],"delta":"`...)
			b = append(b, e.reply.token(k)...)
			return append(b, `",`...)
		})
		if err != nil {
			return err
		}
	}
	return r.close(e)
}

func (r *responseEvents) open(e *Engine) error {
	begun := func(b []byte) []byte {
		b = append(b, `"response":`...)
		return append(r.a.appendResponse(b, e, inProgress), ',')
	}
	if err := r.send("response.created", begun); err != nil {
		return err
	}
	if err := r.send("response.in_progress", begun); err != nil {
		return err
	}
	err := r.send("response.output_item.added", func(b []byte) []byte {
		return append(r.a.appendItem(append(b, `"output_index":0,"item":`...), e, inProgress), ',')
	})
	if err != nil {
		return err
	}
	return r.send("response.content_part.added", func(b []byte) []byte {
		return append(appendOutputText(append(r.place(b), `"part":`...), ""), ',')
	})
}

func (r *responseEvents) close(e *Engine) error {
	text := e.reply.first(r.a.tokens)
	err := r.send("response.output_text.done", func(b []byte) []byte {
		b = append(r.place(b), `"logprobs":[],"text":"`...)
		b = append(b, text...)
		return append(b, `",`...)
	})
	if err != nil {
		return err
	}
	err = r.send("response.content_part.done", func(b []byte) []byte {
		return append(appendOutputText(append(r.place(b), `"part":`...), text), ',')
	})
	if err != nil {
		return err
	}
	err = r.send("response.output_item.done", func(b []byte) []byte {
		return append(r.a.appendItem(append(b, `"output_index":0,"item":`...), e, "completed"), ',')
	})
	if err != nil {
		return err
	}
	// An answer cut short by its limit ends with this event too, and says so in its status.
	return r.send("response.completed", func(b []byte) []byte {
		return append(r.a.appendResponse(append(b, `"response":`...), e, r.a.responseStatus()), ',')
	})
}
