package engine

import "strconv"

// answer is what the answer to an inference request is made of.
type answer struct {
	ask
	id           []byte // <engine>-<number>
	modelName    string // as the request names it, or the engine's first; escaped for JSON
	created      int64  // Unix seconds
	promptTokens int
	cached       int    // of the prompt's tokens
	tokens       int    // of each reply
	batch        int    // prompts in the request
	finish       string // stop, or length if the request's limit ended it
}

// api is an inference route.
type api struct {
	form    bool  // its body is a form
	needs   given // fields it cannot do without
	field   string
	size    func(*ask) size
	prompt  func(*tokenizer, *ask) // the tokens of it; nil if nothing is computed
	replies bool                   // it makes tokens
	body    func(b []byte, a *answer, e *Engine) []byte
	stream  func(s *sse, a *answer, e *Engine) error // nil: it never streams
}

// infer answers an inference request.
func (e *Engine) infer(c *conn, api *api) error {
	a := &c.answer
	if err := api.read(c, a); err != nil {
		return c.invalid(err)
	}
	if a.given&api.needs != api.needs {
		return c.missing(api.field)
	}
	if !e.serves(a.model) {
		return c.unknownModel(a.model)
	}
	if a.limit == 0 && api.replies && a.limitField != "max_new_tokens" {
		return c.limitTooLow(a.limitField)
	}
	e.fill(a, c, api)
	if e.driver != nil && api.prompt != nil && !c.fault.timed() {
		c.ride = e.driver.board(a.tokenize(api), a.tokens)
		defer func() {
			e.driver.leave(c.ride)
			c.ride = nil
		}()
	}
	e.counters.held.Add(int64(a.promptTokens))
	defer e.counters.held.Add(-int64(a.promptTokens))
	if api.stream != nil && a.stream {
		s := c.startStream(200)
		if err := api.stream(s, a, e); err != nil {
			return err
		}
		e.counters.finished.Add(1)
		return s.finish()
	}
	if err := c.ready(a.tokens - 1); err != nil {
		return err
	}
	e.counters.tokens.Add(int64(a.tokens * a.choices()))
	e.counters.finished.Add(1)
	return c.send(200, jsonType, api.body(c.text[:0], a, e))
}

// read reads the body of a request.
func (p *api) read(c *conn, a *answer) error {
	if p.form {
		return a.parseForm(c.head.contentType(), c.body)
	}
	return a.parse(c.body)
}

// fill completes an answer whose request has been read.
func (e *Engine) fill(a *answer, c *conn, api *api) {
	size := api.size(&a.ask)
	a.promptTokens, a.batch = size.tokens, size.batch
	a.cached = 0
	e.counters.prompt.Add(int64(a.promptTokens))
	a.id = append(append(a.id[:0], e.jsonName...), '-')
	a.id = strconv.AppendInt(a.id, e.counters.answers.Add(1), 10)
	a.created = c.at.Unix()
	a.modelName = e.models[0]
	if len(a.model) > 0 && string(a.model) != a.modelName {
		a.modelName = string(a.model)
	}
	a.tokens, a.finish = 0, "stop"
	if !api.replies {
		return
	}
	a.tokens = len(e.reply.ends)
	if a.limit >= 0 && a.limit <= a.tokens {
		a.tokens, a.finish = a.limit, "length"
	}
}

// tokenize makes the tokens of the prompt.
func (a *answer) tokenize(api *api) []uint32 {
	t := &tokenizer{tokens: make([]uint32, 0, a.promptTokens)}
	api.prompt(t, &a.ask)
	return t.tokens
}

// serves tells whether the engine would answer for that model. SGLang does for any, vLLM for its own and for none at all.
func (e *Engine) serves(model []byte) bool {
	if e.cfg.Engine == SGLang || len(model) == 0 {
		return true
	}
	for _, m := range e.models {
		if m == string(model) {
			return true
		}
	}
	return false
}

// choices is how many replies the answer has.
func (a *answer) choices() int { return min(a.batch*a.n, maxChoices) }

// The functions below append parts that several answers share.

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendIdentity opens an answer's object: id, object, created, model.
func (a *answer) appendIdentity(b []byte, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, a.created, 10)
	b = append(b, `,"model":"`...)
	b = append(b, a.modelName...)
	return append(b, '"')
}

// appendUsage appends the member usage of the OpenAI shapes.
func (a *answer) appendUsage(b []byte) []byte {
	made := a.tokens * a.choices()
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = appendInt(b, a.promptTokens)
	b = append(b, `,"total_tokens":`...)
	b = appendInt(b, a.promptTokens+made)
	b = append(b, `,"completion_tokens":`...)
	b = appendInt(b, made)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = appendInt(b, a.cached)
	return append(b, "}}"...)
}

// appendTransfer appends what a prefill engine hands to the decode engine, if this is a prefill leg.
func (a *answer) appendTransfer(b []byte, e *Engine) []byte {
	if !a.remoteDecode {
		return b
	}
	b = append(b, `,"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1]],"remote_engine_id":"`...)
	b = append(b, e.jsonName...)
	b = append(b, `","remote_request_id":"`...)
	b = append(b, a.id...)
	return append(b, `","remote_host":"127.0.0.1","remote_port":5600,"tp_size":1}`...)
}
