package stages

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// stringBytes is what stands between the quotes of a string that has been checked; ok is false for any other value. It is the
// string itself unless it has escapes.
func stringBytes(value []byte) (inner []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// fieldString is the string that a field holds, decoded; ok is false if the field is absent, null or not a string.
func fieldString(body []byte, f *fieldSet, id field) (s string, ok bool) {
	return stringOf(f.raw(body, id))
}

// stringOf decodes a string value that has been checked.
func stringOf(value []byte) (s string, ok bool) {
	inner, ok := stringBytes(value)
	if !ok {
		return "", false
	}
	if !hasEscape(inner) {
		return string(inner), true
	}
	return string(appendUnescaped(make([]byte, 0, len(inner)), inner)), true
}

// fieldEquals tells whether a field holds the string want. It allocates nothing unless the client wrote it with escapes.
func fieldEquals(body []byte, f *fieldSet, id field, want string) bool {
	return stringEquals(f.raw(body, id), want)
}

func stringEquals(value []byte, want string) bool {
	inner, ok := stringBytes(value)
	if !ok || !hasEscape(inner) {
		return ok && string(inner) == want
	}
	return string(appendUnescaped(nil, inner)) == want
}

// fieldBool is the value of a field that is true or false; a field of another type is false, like one that is absent.
func fieldBool(body []byte, f *fieldSet, id field) bool { return string(f.raw(body, id)) == "true" }

// fieldInt is the value of a field that is a whole number; ok is false if the field is absent or anything else.
func fieldInt(body []byte, f *fieldSet, id field) (n int, ok bool) {
	v, ok := wholeNumber(f.raw(body, id))
	return int(v), ok && v >= -1<<53 && v <= 1<<53
}

// modelOf is the model that a body names, as the client wrote it; "" if it names none.
func modelOf(body []byte, f *fieldSet) string {
	model, _ := fieldString(body, f, fieldModel)
	return model
}

func hasEscape(inner []byte) bool { return bytes.IndexByte(inner, '\\') >= 0 }

// appendUnescaped appends the text that the inside of a string stands for. Invalid UTF-8 stays as it is; half a surrogate pair,
// which no UTF-8 can express, becomes U+FFFD. This is for what the gateway reads: what it forwards are the client's own bytes.
func appendUnescaped(dst, inner []byte) []byte {
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 || i+1 == len(inner) {
			return append(dst, inner...)
		}
		dst = append(dst, inner[:i]...)
		dst, inner = appendEscape(dst, inner[i:])
	}
}

var shortEscapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendEscape appends what the escape at the start of s stands for, and returns what is behind the escape.
func appendEscape(dst, s []byte) (appended, rest []byte) {
	if s[1] != 'u' {
		c := shortEscapes[s[1]]
		if c == 0 { // a quote, a backslash or a slash
			c = s[1]
		}
		return append(dst, c), s[2:]
	}
	r, rest := codeUnit(s), s[min(6, len(s)):]
	if utf16.IsSurrogate(r) {
		pair := utf16.DecodeRune(r, codeUnit(rest))
		if pair != utf8.RuneError {
			rest = rest[6:]
		}
		r = pair
	}
	return utf8.AppendRune(dst, r), rest
}

// codeUnit is the UTF-16 code unit that the \uXXXX at the start of s stands for; U+FFFD if there is none.
func codeUnit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return utf8.RuneError
	}
	u, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(u)
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Only what must be escaped is.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
