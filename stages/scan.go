package stages

import (
	"math"
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// scanObject checks that body is one JSON object and nothing else, and notes in f where the values of its top-level fields are.
// It looks at every byte once and allocates nothing.
//
// It takes what RFC 8259 takes, and no more, with two liberties that engines' parsers take too and that change no byte on its
// way: strings may hold invalid UTF-8 and lone surrogates. A byte order mark is refused. Values may be nested about 4,000 deep
// (4,095 levels are accepted, 4,098 are not).
//
// Errors, all 400: invalid_json, and invalid_type if the body is JSON but not an object.
func scanObject(body []byte, f *fieldSet) *pipeline.Error {
	f.reset()
	if uint64(len(body)) > math.MaxUint32 {
		return invalidJSON("The request body is too large to be parsed.")
	}
	i := skipSpace(body, 0)
	if i == len(body) {
		return invalidJSON("The request body is empty.")
	}
	if body[i] != '{' {
		return notAnObject(body, i)
	}
	end := f.scanMembers(body, i+1)
	switch {
	case end == tooDeep:
		return invalidJSON("The request body is nested too deeply.")
	case end < 0:
		return invalidJSON("The request body is not valid JSON.")
	case skipSpace(body, end) != len(body):
		return invalidJSON("The request body has more behind its JSON object.")
	}
	return nil
}

// scanMembers reads the members of an object from behind its opening brace to behind its closing one, and returns the position
// there, or why it could not.
func (f *fieldSet) scanMembers(body []byte, i int) int {
	i = skipSpace(body, i)
	if i < len(body) && body[i] == '}' {
		return i + 1
	}
	for {
		m, next := readMember(body, i)
		if next < 0 {
			return next
		}
		if id, known := fieldOf(m.key.of(body)); known {
			f.set(id, m.value, body[m.value.start] == 'n')
		}
		i = skipSpace(body, next)
		if i == len(body) {
			return invalid
		}
		switch body[i] {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return invalid
		}
	}
}

// member is one of an object: the key without its quotes, and the value.
type member struct{ key, value span }

// readMember reads the member at i, white space before it included, and returns the position behind its value, or why it could
// not.
func readMember(b []byte, i int) (m member, next int) {
	i = skipSpace(b, i)
	if i == len(b) || b[i] != '"' {
		return m, invalid
	}
	behindKey := skipString(b, i+1)
	if behindKey < 0 {
		return m, behindKey
	}
	value := skipColon(b, behindKey)
	if value < 0 {
		return m, value
	}
	value = skipSpace(b, value)
	if next = skipFast(b, value); next < 0 {
		return m, next
	}
	return member{newSpan(i+1, behindKey-1), newSpan(value, next)}, next
}

func notAnObject(body []byte, i int) *pipeline.Error {
	end := skipFast(body, i)
	if end < 0 || skipSpace(body, end) != len(body) {
		return invalidJSON("The request body is not valid JSON.")
	}
	return badRequest("invalid_type", "", "The request body must be a JSON object.")
}

func invalidJSON(message string) *pipeline.Error { return badRequest("invalid_json", "", message) }

// badRequest is a 400 that says what is wrong with the body. param is the field at fault, "" if it is the body as a whole.
func badRequest(code, param, message string) *pipeline.Error {
	return &pipeline.Error{Status: http.StatusBadRequest, Code: code, Param: param, Message: message, Terminal: true}
}
