package engine

import (
	"bytes"
	"errors"

	"github.com/bytedance/sonic"
)

// charsPerToken is how long a token of a prompt is taken to be.
const charsPerToken = 4

// maxChoices bounds n and the size of a batch.
const maxChoices = 1024

// ask is what an inference request says, as far as it matters here. Its slices are parts of the body.
type ask struct {
	model          []byte // between its quotes, still escaped; nil if it names none
	stream         bool
	usage          bool // stream_options.include_usage
	logprobs       bool // return_logprob of /generate
	base64         bool // encoding_format of embeddings
	noDocuments    bool // return_documents is false
	remoteDecode   bool // kv_transfer_params.do_remote_decode: this is the prefill leg of a pair
	limit          int  // the least of the limits for new tokens, -1 if there is none
	limitField     string
	n              int
	dimensions     int
	given          given
	messages       []byte
	system, prompt []byte
	inputs, text   []byte
	inputIDs       []byte
	instructions   []byte
	query, docs    []byte
	file           []byte
}

// given are the fields that some route cannot do without.
type given uint16

const (
	givenMessages given = 1 << iota
	givenPrompt
	givenInput
	givenText // or input_ids
	givenQuery
	givenDocuments
	givenMaxTokens
	givenFile
	givenModel // of a form
)

var (
	errNoJSON   = errors.New("JSON decode error")
	errNoBody   = errors.New("field required")
	errNoObject = errors.New("input should be a valid dictionary")
)

// parse reads a body. Of a key that is there twice the last counts, as in the engines' own parsers.
func (a *ask) parse(body []byte) error {
	*a = ask{limit: -1, n: 1}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if len(body) == 0 {
		return errNoBody
	}
	if !sonic.Valid(body) {
		return errNoJSON
	}
	if i := skipSpace(body, 0); body[i] != '{' {
		return errNoObject
	}
	eachField(body, a.field)
	return nil
}

func (a *ask) field(key, value []byte) {
	if string(value) == "null" {
		return
	}
	switch string(key) {
	case "model":
		a.model = inner(value)
	case "stream":
		a.stream = isTrue(value)
	case "stream_options":
		eachField(value, func(k, v []byte) {
			if string(k) == "include_usage" {
				a.usage = isTrue(v)
			}
		})
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		a.lower(string(key), value)
	case "sampling_params":
		eachField(value, func(k, v []byte) {
			if string(k) == "max_new_tokens" {
				a.lower("max_new_tokens", v)
			}
		})
	case "n":
		if n, ok := number(value); ok {
			a.n = min(max(n, 1), maxChoices)
		}
	default:
		a.content(key, value)
	}
}

// content reads the fields that hold the prompt, and the rarer ones.
func (a *ask) content(key, value []byte) {
	switch string(key) {
	case "messages":
		a.messages, a.given = value, a.given|givenMessages
	case "system":
		a.system = value
	case "instructions":
		a.instructions = value
	case "prompt":
		a.prompt, a.given = value, a.given|givenPrompt
	case "input":
		a.inputs, a.given = value, a.given|givenInput
	case "text":
		a.text, a.given = value, a.given|givenText
	case "input_ids":
		a.inputIDs, a.given = value, a.given|givenText
	case "query":
		a.query, a.given = value, a.given|givenQuery
	case "documents":
		a.docs, a.given = value, a.given|givenDocuments
	case "return_logprob":
		a.logprobs = isTrue(value)
	case "return_documents":
		a.noDocuments = string(value) == "false"
	case "encoding_format":
		a.base64 = string(inner(value)) == "base64"
	case "dimensions":
		a.dimensions, _ = number(value)
	case "kv_transfer_params":
		eachField(value, func(k, v []byte) {
			if string(k) == "do_remote_decode" {
				a.remoteDecode = isTrue(v)
			}
		})
	}
}

func (a *ask) lower(field string, value []byte) {
	n, ok := number(value)
	if !ok {
		return
	}
	a.given |= givenMaxTokens
	if a.limit < 0 || n < a.limit {
		a.limit, a.limitField = max(n, 0), field
	}
}

func isTrue(value []byte) bool { return string(value) == "true" }

// size is how long a prompt is, and how many prompts a batch holds.
type size struct{ tokens, batch int }

// measure gives the size of a prompt in any of its forms: text, token ids, a list of either.
func measure(value []byte) size {
	if len(value) == 0 || value[0] != '[' {
		return size{tokens: textTokens(characters(value)), batch: 1}
	}
	var s size
	eachElement(value, func(v []byte) {
		switch v[0] {
		case '"':
			s.tokens += textTokens(characters(v))
			s.batch++
		case '[':
			eachElement(v, func([]byte) { s.tokens++ })
			s.batch++
		default:
			s.tokens++
		}
	})
	s.batch = min(max(s.batch, 1), maxChoices)
	return s
}

// chatTokens gives the tokens of messages (a string or a list of them) together with an instruction that stands beside them.
func chatTokens(messages, beside []byte) int {
	return textTokens(contentChars(messages) + contentChars(beside))
}

func textTokens(chars int) int { return (chars + charsPerToken - 1) / charsPerToken }

// contentChars counts the characters of content: a string, a list of parts with text, a list of messages with content.
func contentChars(value []byte) int {
	chars := 0
	eachContent(value, func(text []byte) { chars += characters(text) })
	return chars
}
