package stages

import (
	"bytes"
	"iter"
	"unicode/utf8"
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

// outermostString is the value of the member of a name, if it is a string: of several, of the one that the fewest braces are around.
// Engines differ in what they write first, and a call of a tool in an answer has an id as well.
func outermostString(doc []byte, name string) string {
	value, rest, _ := cutString(doc, name)
	if !bytes.Contains(rest, []byte(name)) {
		return value
	}
	depth, least := 0, len(doc)
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := i + 1
			for end < len(doc) && doc[end] != '"' {
				if doc[end] == '\\' {
					end++
				}
				end++
			}
			if end < len(doc) && depth < least && string(doc[i:end+1]) == name {
				if v, ok := leadingString(doc[end+1:]); ok {
					value, least = v, depth
				}
			}
			i = end
		}
	}
	return value
}

// cutString finds the first member of a name in a document whose value is a string, and gives that string and what is behind. A
// name in quotes is no part of a text: there, the quotes would be escaped.
func cutString(doc []byte, name string) (value string, rest []byte, found bool) {
	for {
		at := bytes.Index(doc, []byte(name))
		if at < 0 {
			return "", nil, false
		}
		doc = doc[at+len(name):]
		if value, ok := leadingString(doc); ok {
			return value, doc, true
		}
	}
}

// leadingString is the string behind a colon, or that of the member "type" of an object there.
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
	return string(b[1 : end+1]), true
}

// finishReasons are why the choices of an answer ended, in the words of any of the APIs.
func finishReasons(doc []byte) (reasons []string) {
	for _, name := range []string{`"finish_reason"`, `"stop_reason"`} {
		for rest := doc; ; {
			reason, behind, found := cutString(rest, name)
			if !found {
				break
			}
			reasons, rest = append(reasons, reason), behind
		}
		if len(reasons) > 0 {
			return reasons
		}
	}
	return nil
}
