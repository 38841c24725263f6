//go:build (amd64 || arm64) && !go1.28

package stages

import (
	"encoding/binary"
	"math/bits"

	"github.com/bytedance/sonic/decoder"
)

// shortString is up to how many bytes a string is skipped in Go: a call of the native skipper costs as much.
const shortString = 64

// nativeTooDeep is what the native skipper returns for a value that is nested too deeply.
const nativeTooDeep = -7

// skipFast is skipValue at memory speed. The native skipper checks the structure, the literals and the numbers. What it lets
// through is checked behind it: control characters and wrong escapes in strings, and a string by itself that does not end, if the
// bytes end where one of its blocks does.
func skipFast(b []byte, i int) int {
	if i >= len(b) {
		return invalid
	}
	switch b[i] {
	case '{', '[':
	case '"':
		end := i + 1 + shortString
		if end > len(b) {
			return skipString(b, i+1)
		}
		if end = skipString(b[:end], i+1); end > 0 {
			return end
		}
	default:
		return skipScalar(b, i)
	}
	return skipNative(b, i)
}

func skipNative(b []byte, i int) int {
	start, length := decoder.Skip(b[i:])
	switch {
	case start == nativeTooDeep:
		return tooDeep
	case start < 0:
		return invalid
	}
	value := b[i : i+length]
	if value[0] == '"' && value[length-1] != '"' {
		return invalid
	}
	switch checkStrings(value) {
	case stringsBad:
		return invalid
	case stringsUnclear:
		return skipValue(b, i)
	}
	return i + length
}

type stringsVerdict uint8

const (
	stringsGood stringsVerdict = iota
	stringsBad
	stringsUnclear // there is white space that is allowed between values, but not inside a string
)

// checkStrings looks for control characters and wrong escapes in a value whose structure has been checked: whatever follows a
// backslash is inside a string then. It does not know where strings begin, so line breaks and tabs leave it undecided.
func checkStrings(value []byte) stringsVerdict {
	for i := 0; ; {
		if i = nextOdd(value, i); i == len(value) {
			return stringsGood
		}
		switch {
		case value[i] != '\\':
			if isSpace(value[i]) {
				return stringsUnclear
			}
			return stringsBad
		case escapes[value[i+1]] == 1: // no value ends with a backslash
			i += 2
		default:
			i = skipEscape(value, i)
		}
		if i < 0 || i == len(value) { // the closing quote is none: it is escaped
			return stringsBad
		}
	}
}

// nextOdd returns the position of the first backslash or control character at or behind i; len(b) if there is none.
func nextOdd(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		block := b[i : i+32 : i+32]
		w0, w1 := odd(binary.LittleEndian.Uint64(block)), odd(binary.LittleEndian.Uint64(block[8:]))
		w2, w3 := odd(binary.LittleEndian.Uint64(block[16:])), odd(binary.LittleEndian.Uint64(block[24:]))
		switch {
		case (w0|w1|w2|w3)&topBits == 0:
			continue
		case w0&topBits != 0:
			return i + firstByte(w0)
		case w1&topBits != 0:
			return i + 8 + firstByte(w1)
		case w2&topBits != 0:
			return i + 16 + firstByte(w2)
		}
		return i + 24 + firstByte(w3)
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '\\' {
		i++
	}
	return i
}

// odd has the top bit of each byte set that is a backslash or a control character; see eachByte. Its other bits mean nothing.
func odd(w uint64) uint64 { return ((w - spaces) | ((w ^ backslash) - eachByte)) &^ w }

func firstByte(hits uint64) int { return bits.TrailingZeros64(hits&topBits) / 8 }
