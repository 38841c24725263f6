package stages

import (
	"bytes"
	"iter"
	"unicode/utf8"
	"unsafe"
)

// What the end of an answer is searched for: bytes of an answer that is looked at, events of a stream from its end, bytes of a
// value. It is the worker's text, of which nothing is certain: what does not look as expected is not found.
const (
	inspected       = 64 << 10
	inspectedEvents = 4
	longestValue    = 128
)

// lastDocuments yields the JSON documents at the end of an answer, the last one first: the answer itself, or the last events of a
// stream. The first event may be cut at its beginning; it is not yielded.
func lastDocuments(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if bytes.HasPrefix(body, []byte("{")) {
			yield(body)
			return
		}
		for range inspectedEvents {
			at := bytes.LastIndex(body, []byte("data:"))
			if at < 0 || at > 0 && body[at-1] != '\n' && body[at-1] != '\r' || !yield(body[at+len("data:"):]) {
				return
			}
			body = body[:at]
		}
	}
}

// inferred is what a document says of an answer. The texts are the document's own bytes: they are not kept.
type inferred struct {
	id, model string   // of several the ones that the fewest braces are around: a call of a tool has an id as well
	finished  []string // why its choices ended, as OpenAI and SGLang say it
	stopped   []string // the same as Anthropic says it; beside the other it is the text that ended a choice

	idDepth, modelDepth int
}

// readAnswer finds it in one pass, in whatever order the engine writes. A name in a text is none: there, its quotes are escaped.
func readAnswer(doc []byte) (a inferred) {
	a.idDepth, a.modelDepth = len(doc), len(doc)
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := closingQuote(doc, i+1)
			if end < 0 {
				return a
			}
			a.member(doc[i+1:end], doc[end+1:], depth)
			i = end
		}
	}
	return a
}

// closingQuote is where the string ends whose text begins at i; negative if it does not.
func closingQuote(doc []byte, i int) int {
	for {
		switch i = nextSpecial(doc, i); {
		case i >= len(doc):
			return -1
		case doc[i] == '"':
			return i
		case doc[i] == '\\':
			i += 2
		default: // a control character, which no string should have
			i++
		}
	}
}

// member takes a member whose value is a string, and lets all else pass.
func (a *inferred) member(name, rest []byte, depth int) {
	switch string(name) {
	case "id":
		if depth < a.idDepth {
			a.id, a.idDepth = outer(a.id, a.idDepth, rest, depth)
		}
	case "model":
		if depth < a.modelDepth {
			a.model, a.modelDepth = outer(a.model, a.modelDepth, rest, depth)
		}
	case "finish_reason":
		if v, ok := leadingString(rest); ok {
			a.finished = append(a.finished, v)
		}
	case "stop_reason":
		if v, ok := leadingString(rest); ok {
			a.stopped = append(a.stopped, v)
		}
	}
}

// outer is the string at the beginning of rest and its depth, or what was found before.
func outer(found string, foundDepth int, rest []byte, depth int) (string, int) {
	if v, ok := leadingString(rest); ok {
		return v, depth
	}
	return found, foundDepth
}

// reasons are why the answer ended.
func (a *inferred) reasons() []string {
	if len(a.finished) > 0 {
		return a.finished
	}
	return a.stopped
}

// leadingString is the string behind a colon, or that of the member "type" of an object there. It is the bytes of b themselves.
func leadingString(b []byte) (string, bool) {
	b = bytes.TrimLeft(b, " \t\r\n")
	if !bytes.HasPrefix(b, []byte(":")) {
		return "", false
	}
	b = bytes.TrimLeft(b[1:], " \t\r\n")
	if inner, ok := bytes.CutPrefix(b, []byte(`{"type"`)); ok {
		return leadingString(inner)
	}
	if !bytes.HasPrefix(b, []byte(`"`)) {
		return "", false
	}
	end := bytes.IndexByte(b[1:min(len(b), longestValue+2)], '"')
	if end <= 0 || hasEscape(b[1:end+1]) || !utf8.Valid(b[1:end+1]) {
		return "", false
	}
	return unsafe.String(&b[1], end), true
}
