package stages

// field is a top-level member of a request body that some stage reads.
type field uint8

// The fields that are read. Their names are in fieldNames; a body may have any others, which nobody looks at.
const (
	fieldModel field = iota
	fieldStream
	fieldMessages
	fieldPrompt
	fieldText
	fieldInputIDs
	fieldInput
	fieldInstructions
	fieldSystem
	fieldQuery
	fieldDocuments
	fieldRID
	fieldN
	fieldBestOf
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMaxOutputTokens
	fieldMaxToolCalls
	fieldMinTokens
	fieldTemperature
	fieldTopP
	fieldTopK
	fieldMinP
	fieldFrequencyPenalty
	fieldPresencePenalty
	fieldRepetitionPenalty
	fieldLogprobs
	fieldTopLogprobs
	fieldReturnLogprob
	fieldReturnDocuments
	fieldStop
	fieldStreamOptions
	fieldRegex
	fieldEBNF
	fieldJSONSchema
	fieldResponseFormat
	fieldTools
	fieldToolChoice
	fieldReasoningEffort
	fieldMCPServers
	fieldDataParallelRank
	fieldSeed
	fieldConversation
	fieldCacheSalt
	fieldExtraKey
	fieldLoraPath
	fieldLoraID
	fieldCount // how many there are; at most 64, the bits of a fieldSet
)

var fieldNames = [fieldCount]string{
	fieldModel:               "model",
	fieldStream:              "stream",
	fieldMessages:            "messages",
	fieldPrompt:              "prompt",
	fieldText:                "text",
	fieldInputIDs:            "input_ids",
	fieldInput:               "input",
	fieldInstructions:        "instructions",
	fieldSystem:              "system",
	fieldQuery:               "query",
	fieldDocuments:           "documents",
	fieldRID:                 "rid",
	fieldN:                   "n",
	fieldBestOf:              "best_of",
	fieldMaxTokens:           "max_tokens",
	fieldMaxCompletionTokens: "max_completion_tokens",
	fieldMaxOutputTokens:     "max_output_tokens",
	fieldMaxToolCalls:        "max_tool_calls",
	fieldMinTokens:           "min_tokens",
	fieldTemperature:         "temperature",
	fieldTopP:                "top_p",
	fieldTopK:                "top_k",
	fieldMinP:                "min_p",
	fieldFrequencyPenalty:    "frequency_penalty",
	fieldPresencePenalty:     "presence_penalty",
	fieldRepetitionPenalty:   "repetition_penalty",
	fieldLogprobs:            "logprobs",
	fieldTopLogprobs:         "top_logprobs",
	fieldReturnLogprob:       "return_logprob",
	fieldReturnDocuments:     "return_documents",
	fieldStop:                "stop",
	fieldStreamOptions:       "stream_options",
	fieldRegex:               "regex",
	fieldEBNF:                "ebnf",
	fieldJSONSchema:          "json_schema",
	fieldResponseFormat:      "response_format",
	fieldTools:               "tools",
	fieldToolChoice:          "tool_choice",
	fieldReasoningEffort:     "reasoning_effort",
	fieldMCPServers:          "mcp_servers",
	fieldDataParallelRank:    "data_parallel_rank",
	fieldSeed:                "seed",
	fieldConversation:        "conversation",
	fieldCacheSalt:           "cache_salt",
	fieldExtraKey:            "extra_key",
	fieldLoraPath:            "lora_path",
	fieldLoraID:              "lora_id",
}

func (id field) String() string { return fieldNames[id] }

// longestFieldName is in bytes; a key that is longer is nobody's.
const longestFieldName = 32

// fieldsByLength holds the fields by the length of their names: three or four of them, so that a look-up is a few comparisons.
var fieldsByLength = func() (table [longestFieldName + 1][]field) {
	for id, name := range fieldNames {
		table[len(name)] = append(table[len(name)], field(id))
	}
	return table
}()

// fieldOf finds the field that a key names. The key is what stands between the quotes; it is decoded only if it has to be.
func fieldOf(key []byte) (field, bool) {
	if len(key) <= longestFieldName {
		for _, id := range fieldsByLength[len(key)] {
			if string(key) == fieldNames[id] {
				return id, true
			}
		}
	}
	if !hasEscape(key) || len(key) > 6*longestFieldName { // \u0061: six bytes for one
		return 0, false
	}
	return fieldOf(appendUnescaped(nil, key))
}

// span is a part of a body: the bytes from start to before end.
type span struct{ start, end uint32 }

func newSpan(start, end int) span { return span{uint32(start), uint32(end)} }

func (s span) of(body []byte) []byte { return body[s.start:s.end] }

// fieldSet says where in a body the values of the fields are. It holds no bytes and no pointer, and is used again for the next
// body. The last of several members with one name counts, as it does for the engines' own parsers.
type fieldSet struct {
	keyed   uint64 // one bit per field: the body has a member of that name
	present uint64 // and its value is not null
	spans   [fieldCount]span
}

func (f *fieldSet) reset() { f.keyed, f.present = 0, 0 }

func (f *fieldSet) set(id field, value span, null bool) {
	bit := uint64(1) << id
	f.keyed |= bit
	f.present |= bit
	if null {
		f.present &^= bit
	}
	f.spans[id] = value
}

// has tells whether the body has the field with a value other than null.
func (f *fieldSet) has(id field) bool { return f.present&(1<<id) != 0 }

// hasKey tells whether the body has the field, be it null.
func (f *fieldSet) hasKey(id field) bool { return f.keyed&(1<<id) != 0 }

// raw is the field's value as the client wrote it; nil if it is absent or null.
func (f *fieldSet) raw(body []byte, id field) []byte {
	if !f.has(id) {
		return nil
	}
	return f.spans[id].of(body)
}

// moveBehind takes into account that the body has grown by delta bytes at a position.
func (f *fieldSet) moveBehind(position uint32, delta int) {
	for id := range f.spans {
		if f.keyed&(1<<id) != 0 && f.spans[id].start > position {
			f.spans[id].start = uint32(int(f.spans[id].start) + delta)
			f.spans[id].end = uint32(int(f.spans[id].end) + delta)
		}
	}
}
