package stages

import (
	"encoding/binary"
	"math/bits"
)

// The skip functions take a position in a buffer and return the one behind what they have read, or one of these.
const (
	invalid = -1 // it is not JSON, or it ends too early
	tooDeep = -2 // it is nested deeper than maxDepth
)

// maxDepth is how deep skipValue follows arrays and objects. The native skipper has the same limit, give or take a level.
const maxDepth = 4096

// skipSpace returns the position of the first byte at or behind i that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipValue skips the value at i, of any type, in plain Go. It is as strict as encoding/json. It neither recurses nor allocates:
// what kind of container it is in is a bit for each level.
func skipValue(b []byte, i int) int {
	var in nesting
	for {
		i = skipSpace(b, i)
		opened := false
		if i, opened = in.open(b, i); opened {
			continue
		}
		if i = in.afterValue(b, i); i < 0 || in.depth == 0 {
			return i
		}
	}
}

type nesting struct {
	depth   int
	objects [maxDepth / 64]uint64 // a bit for each level: it is an object
}

// open skips what starts a value at i: a scalar, an empty container, or the beginning of a container up to its first value.
// Only in the last case opened is true, and a value follows.
func (n *nesting) open(b []byte, i int) (next int, opened bool) {
	if i >= len(b) {
		return invalid, false
	}
	c := b[i]
	if c != '{' && c != '[' {
		return skipScalar(b, i), false
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == c+2 { // the closing bracket is two behind the opening one in ASCII
		return i + 1, false
	}
	if n.depth == maxDepth {
		return tooDeep, false
	}
	n.push(c == '{')
	if c == '[' {
		return i, true
	}
	i = skipKey(b, i)
	return i, i >= 0
}

// afterValue skips what follows a value: closing brackets, then a comma, and in an object the next key. It stops where the next
// value starts, or, with depth 0, behind the outermost.
func (n *nesting) afterValue(b []byte, i int) int {
	for i >= 0 && n.depth > 0 {
		i = skipSpace(b, i)
		if i == len(b) {
			return invalid
		}
		object := n.inObject()
		switch c := b[i]; {
		case c == ',' && object:
			return skipKey(b, skipSpace(b, i+1))
		case c == ',':
			return i + 1
		case c == '}' && object, c == ']' && !object:
			n.depth--
			i++
		default:
			return invalid
		}
	}
	return i
}

func (n *nesting) push(object bool) {
	word, bit := &n.objects[n.depth/64], uint64(1)<<(n.depth%64)
	*word &^= bit
	if object {
		*word |= bit
	}
	n.depth++
}

func (n *nesting) inObject() bool {
	top := n.depth - 1
	return n.objects[top/64]>>(top%64)&1 != 0
}

// skipKey skips the key at i, and the colon behind it.
func skipKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return invalid
	}
	if i = skipString(b, i+1); i < 0 {
		return i
	}
	return skipColon(b, i)
}

func skipColon(b []byte, i int) int {
	i = skipSpace(b, i)
	if i == len(b) || b[i] != ':' {
		return invalid
	}
	return i + 1
}

func skipScalar(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipLiteral(b []byte, i int, literal string) int {
	end := i + len(literal)
	if end > len(b) || string(b[i:end]) != literal {
		return invalid
	}
	return end
}

// skipNumber skips a number: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(b, i); i < 0 || b[start] == '0' && i > start+1 {
		return invalid
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return invalid
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits skips one or more digits.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return invalid
	}
	return i
}

// skipString skips a string from behind its opening quote to behind its closing one.
func skipString(b []byte, i int) int {
	for {
		i = nextSpecial(b, i)
		if i == len(b) {
			return invalid
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			if i = skipEscape(b, i); i < 0 {
				return invalid
			}
		default: // a control character
			return invalid
		}
	}
}

// escapes tells which bytes may follow a backslash: 1 stands for itself, u (5) is followed by four hexadecimal digits.
var escapes = [256]uint8{'"': 1, '\\': 1, '/': 1, 'b': 1, 'f': 1, 'n': 1, 'r': 1, 't': 1, 'u': 5}

// skipEscape skips the escape at i, where there is a backslash.
func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return invalid
	}
	length := int(escapes[b[i+1]])
	if length == 0 || i+1+length > len(b) {
		return invalid
	}
	for _, c := range b[i+2 : i+1+length] {
		if !isHex(c) {
			return invalid
		}
	}
	return i + 1 + length
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// Eight bytes are looked at at once. For a byte c below 128, c-n borrows into the top bit if c < n; c^x is 0 if c is x. A borrow
// may spill into the byte above, so only the lowest hit is sure, and that is the one that is asked for.
const (
	eachByte  = 0x0101010101010101
	topBits   = 0x80 * eachByte
	spaces    = ' ' * eachByte
	quotes    = '"' * eachByte
	backslash = '\\' * eachByte
)

// nextSpecial returns the position of the first quote, backslash or control character at or behind i; len(b) if there is none.
func nextSpecial(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		hits := ((w - spaces) | ((w ^ quotes) - eachByte) | ((w ^ backslash) - eachByte)) &^ w & topBits
		if hits != 0 {
			return i + bits.TrailingZeros64(hits)/8
		}
		i += 8
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}
