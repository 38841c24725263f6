package stages

import (
	"bytes"
	"strings"
)

// promptText is the text that policies match and hash: the pieces of text of the prompt in the order in which the engine will see
// them, with one space between. Roles, tools and whatever is not text add nothing, and neither do empty pieces, so that the text of
// a conversation's next turn starts with the text of this one. "" if there is no text.
//
// It costs one pass over the fields it reads and one allocation for the text. The body must have been scanned into f.
func promptText(k Kind, body []byte, f *fieldSet) string {
	p := pieces{body: body}
	switch k {
	case Chat:
		p.messages(f, fieldMessages)
	case Messages, CountTokens:
		p.strings(f, fieldSystem)
		p.messages(f, fieldMessages)
	case Responses:
		p.strings(f, fieldInstructions)
		p.messages(f, fieldInput)
	case Completions:
		p.strings(f, fieldPrompt)
	case Generate:
		p.strings(f, fieldText)
	case Embeddings, Classify:
		p.strings(f, fieldInput)
	case Rerank, V1Rerank:
		p.strings(f, fieldQuery)
	}
	return p.join()
}

// pieces collects where in a body the text is.
type pieces struct {
	body  []byte
	spans []span // the insides of strings, none of them empty
	bytes int    // their length
}

func (p *pieces) add(s span) {
	if s.end <= s.start { // an empty string, or none
		return
	}
	if p.spans == nil {
		p.spans = make([]span, 0, 32)
	}
	p.spans = append(p.spans, s)
	p.bytes += int(s.end - s.start)
}

func (p *pieces) rollBack(to pieces) { p.spans, p.bytes = p.spans[:len(to.spans)], to.bytes }

// strings adds a field that is a string, or a list of strings and text parts.
func (p *pieces) strings(f *fieldSet, id field) {
	if f.has(id) {
		p.content(int(f.spans[id].start))
	}
}

// content adds the value at i, which is a string or a list of strings and text parts, and returns the position behind it.
func (p *pieces) content(i int) (end int) {
	if p.body[i] == '[' {
		return eachElement(p.body, i, p.part)
	}
	end, text := p.stringAt(i)
	p.add(text)
	return end
}

// part adds an element of a list: a string, or an object with a string named text. Images, audio and the like have none.
func (p *pieces) part(i int) (end int) {
	if p.body[i] != '{' {
		end, text := p.stringAt(i)
		p.add(text)
		return end
	}
	var text span
	end = eachMember(p.body, i, func(key []byte, i int) (end int) {
		if string(key) == "text" {
			end, text = p.stringAt(i)
			return end
		}
		return skipFast(p.body, i)
	})
	p.add(text)
	return end
}

// stringAt is the inside of the string at i, an empty span if the value there is not a string, and the position behind the value.
func (p *pieces) stringAt(i int) (end int, inside span) {
	end = skipFast(p.body, i)
	if p.body[i] == '"' {
		inside = newSpan(i+1, end-1)
	}
	return end, inside
}

// messages adds a field that is a list of messages; a plain string is taken as the text.
func (p *pieces) messages(f *fieldSet, id field) {
	if !f.has(id) {
		return
	}
	at := int(f.spans[id].start)
	if p.body[at] != '[' {
		p.content(at)
		return
	}
	eachElement(p.body, at, p.message)
}

// message adds the content of a message, and behind it the reasoning of an assistant, whatever their order in the body.
func (p *pieces) message(i int) (end int) {
	if p.body[i] != '{' {
		return skipFast(p.body, i)
	}
	before, silent, assistant := *p, false, false
	var reasoning span
	end = eachMember(p.body, i, func(key []byte, i int) (end int) {
		switch string(key) {
		case "content":
			p.rollBack(before) // the last one counts
			return p.content(i)
		case "reasoning_content":
			end, reasoning = p.stringAt(i)
			return end
		}
		end = skipFast(p.body, i)
		switch string(key) {
		case "role":
			assistant = stringEquals(p.body[i:end], "assistant")
		case "type":
			silent = !hasText(p.body[i:end])
		}
		return end
	})
	switch {
	case silent:
		p.rollBack(before)
	case assistant:
		p.add(reasoning)
	}
	return end
}

// hasText tells whether an item of a conversation with that type has text: calls of tools and their results, references and files
// have none, though some have content.
func hasText(kind []byte) bool {
	inner, ok := stringBytes(kind)
	return !ok || string(inner) == "message" || string(inner) == "reasoning"
}

// join makes the text.
func (p *pieces) join() string {
	if len(p.spans) == 0 {
		return ""
	}
	var text strings.Builder
	text.Grow(p.bytes + len(p.spans) - 1) // escapes are longer than what they stand for
	for i, s := range p.spans {
		if i > 0 {
			text.WriteByte(' ')
		}
		writeUnescaped(&text, s.of(p.body))
	}
	return text.String()
}

func writeUnescaped(text *strings.Builder, inner []byte) {
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			text.Write(inner)
			return
		}
		text.Write(inner[:i])
		var decoded [4]byte
		character, rest := appendEscape(decoded[:0], inner[i:])
		text.Write(character)
		inner = rest
	}
}

// promptTokens is the token ids of a prompt that the client has tokenised itself, of the first sequence if it is a batch; nil if
// there are none. They win over the text.
func promptTokens(k Kind, body []byte, f *fieldSet) []uint32 {
	var id field
	switch k {
	case Generate:
		id = fieldInputIDs
	case Completions:
		id = fieldPrompt
	case Embeddings, Classify:
		id = fieldInput
	default:
		return nil
	}
	value := f.raw(body, id)
	if len(value) == 0 || value[0] != '[' {
		return nil
	}
	if first := skipSpace(value, 1); value[first] == '[' {
		value = value[first:skipFast(value, first)]
	}
	return parseTokens(value)
}

// parseTokens reads an array of whole numbers below 2^32 that has been checked; nil if it is empty or has anything else in it.
func parseTokens(array []byte) []uint32 {
	i := skipSpace(array, 1)
	if c := array[i]; c < '0' || c > '9' {
		return nil
	}
	tokens := make([]uint32, 0, bytes.Count(array, []byte{','})+1)
	for {
		id, length := leadingUint32(array[i:])
		i = skipSpace(array, i+length)
		if length == 0 || array[i] != ',' && array[i] != ']' {
			return nil
		}
		tokens = append(tokens, id)
		if array[i] == ']' {
			return tokens
		}
		i = skipSpace(array, i+1)
	}
}
