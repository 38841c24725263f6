package stages

import "github.com/smg-go/smg/pipeline"

// Kind is what a request body means: one for each inference route. All but transcriptions are JSON.
type Kind uint8

// The kinds, by their routes.
const (
	Chat           Kind = iota // POST /v1/chat/completions
	Completions                // POST /v1/completions
	Generate                   // POST /generate
	Embeddings                 // POST /v1/embeddings
	Classify                   // POST /v1/classify
	Messages                   // POST /v1/messages
	CountTokens                // POST /v1/messages/count_tokens
	Responses                  // POST /v1/responses
	Rerank                     // POST /rerank
	V1Rerank                   // POST /v1/rerank
	Transcriptions             // POST /v1/audio/transcriptions, a form
	kindCount
)

func (k Kind) isRerank() bool { return k == Rerank || k == V1Rerank }

// hasRID tells whether bodies of this kind may carry a request id of the engine that names a conversation.
func (k Kind) hasRID() bool { return k != Responses && k != CountTokens }

// validate checks the fields that the gateway knows against the rules of the body's kind, and returns the first violation: a 400
// that names the field. A field that is null is absent; a field that no rule names may be anything. A body that breaks no rule costs
// a few nanoseconds for each rule whose field it has.
func (k Kind) validate(body []byte, f *fieldSet) *pipeline.Error {
	rules := &kindRules[k]
	for _, id := range rules.required {
		if !f.has(id) {
			return missing(id)
		}
	}
	for i := range rules.fields {
		if r := &rules.fields[i]; f.has(r.field) {
			if err := r.check(r, f.raw(body, r.field)); err != nil {
				return err
			}
		}
	}
	for _, r := range rules.relations {
		if f.present&r.of == 0 {
			continue
		}
		if err := r.check(body, f); err != nil {
			return err
		}
	}
	return nil
}

// mayStream tells whether bodies of this kind may go to the worker unread.
func (k Kind) mayStream() bool {
	switch k {
	case Chat, Completions, Generate, Embeddings, Classify, Messages:
		return true
	}
	return false
}
