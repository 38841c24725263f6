package stages

import "github.com/smg-go/smg/pipeline"

// bodyKind is what a request body means: the kinds of the inference routes that take JSON.
type bodyKind uint8

const (
	kindChat        bodyKind = iota // POST /v1/chat/completions
	kindCompletions                 // POST /v1/completions
	kindGenerate                    // POST /generate
	kindEmbeddings                  // POST /v1/embeddings
	kindClassify                    // POST /v1/classify
	kindMessages                    // POST /v1/messages
	kindCountTokens                 // POST /v1/messages/count_tokens
	kindResponses                   // POST /v1/responses
	kindRerank                      // POST /rerank
	kindV1Rerank                    // POST /v1/rerank
	kindCount
)

func (k bodyKind) isRerank() bool { return k == kindRerank || k == kindV1Rerank }

// hasRID tells whether bodies of this kind may carry a request id of the engine that names a conversation.
func (k bodyKind) hasRID() bool { return k != kindResponses && k != kindCountTokens }

// validate checks the fields that the gateway knows against the rules of the body's kind, and returns the first violation: a 400
// that names the field. A field that is null is absent; a field that no rule names may be anything. A body that breaks no rule costs
// a few nanoseconds for each rule whose field it has.
func (k bodyKind) validate(body []byte, f *fieldSet) *pipeline.Error {
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
