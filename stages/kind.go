package stages

// Kind is what a request body means: the kinds of the inference routes that take JSON.
type Kind = bodyKind

// The kinds.
const (
	Chat        = kindChat
	Completions = kindCompletions
	Generate    = kindGenerate
	Embeddings  = kindEmbeddings
	Classify    = kindClassify
	Messages    = kindMessages
	CountTokens = kindCountTokens
	Responses   = kindResponses
	Rerank      = kindRerank
	V1Rerank    = kindV1Rerank
)

// mayStream tells whether bodies of this kind may go to the worker unread.
func (k bodyKind) mayStream() bool {
	switch k {
	case kindChat, kindCompletions, kindGenerate, kindEmbeddings, kindClassify, kindMessages:
		return true
	}
	return false
}
