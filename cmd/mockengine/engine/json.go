package engine

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// The functions here read JSON in place, without decoding it. They take valid JSON (parseAsk checks it once) and on anything else
// end early, but never fail.

// eachField calls f with the key, as it stands between its quotes, and the value of each member of an object.
func eachField(object []byte, f func(key, value []byte)) {
	i := skipSpace(object, 0)
	if i >= len(object) || object[i] != '{' {
		return
	}
	for i = skipSpace(object, i+1); i < len(object) && object[i] == '"'; {
		key, next := cutValue(object, i)
		i = skipSpace(object, next)
		if i >= len(object) || object[i] != ':' {
			return
		}
		value, next := cutValue(object, skipSpace(object, i+1))
		if len(value) == 0 {
			return
		}
		f(inner(key), value)
		i = skipSpace(object, next)
		if i >= len(object) || object[i] != ',' {
			return
		}
		i = skipSpace(object, i+1)
	}
}

// eachElement calls f with each element of an array.
func eachElement(array []byte, f func(value []byte)) {
	i := skipSpace(array, 0)
	if i >= len(array) || array[i] != '[' {
		return
	}
	for i = skipSpace(array, i+1); i < len(array); {
		value, next := cutValue(array, i)
		if len(value) == 0 {
			return
		}
		f(value)
		i = skipSpace(array, next)
		if i >= len(array) || array[i] != ',' {
			return
		}
		i = skipSpace(array, i+1)
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// cutValue returns the value that begins at i and where it ends.
func cutValue(b []byte, i int) (value []byte, end int) {
	if i >= len(b) {
		return nil, len(b)
	}
	switch b[i] {
	case '"':
		end = stringEnd(b, i)
	case '{', '[':
		end = containerEnd(b, i)
	default:
		for end = i; end < len(b) && !isDelimiter(b[end]); {
			end++
		}
	}
	return b[i:end], end
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', ']', '}', '[', '{', '"', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// stringEnd is the index behind the closing quote of the string that opens at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' { // stops at the opening quote at the latest
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// containerEnd is the index behind the bracket that closes the one at i.
func containerEnd(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

// inner is a string's text as it stands between the quotes; nil for any other value.
func inner(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// characters counts those of a string value: an escape is one. Any other value has none.
func characters(value []byte) int {
	text := inner(value)
	n := utf8.RuneCount(text)
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return n
		}
		if text[i+1] == 'u' && i+6 <= len(text) {
			n -= 5
			text = text[i+6:]
		} else {
			n--
			text = text[i+2:]
		}
	}
}

// character reads the first character of a string's text, an escape for what it stands for, and how many bytes it is.
func character(text []byte) (r rune, size int) {
	if text[0] != '\\' || len(text) < 2 {
		return utf8.DecodeRune(text)
	}
	if text[1] == 'u' && len(text) >= 6 {
		n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
		if err != nil {
			return utf8.RuneError, 6
		}
		return rune(n), 6 // half a pair of surrogates is a character, as in characters
	}
	if c, ok := escapes[text[1]]; ok {
		return c, 2
	}
	return rune(text[1]), 2
}

var escapes = map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// number reads a whole number, also one written as 1.0 or 1e1; ok is false for any other value.
func number(value []byte) (n int, ok bool) {
	if n, err := strconv.Atoi(string(value)); err == nil {
		return n, true
	}
	if len(value) == 0 || value[0] == '"' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != f || f < -1e9 || f > 1e9 {
		return 0, false
	}
	return int(f), true
}
