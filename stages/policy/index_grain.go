package policy

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// grain is what the keys of a tree are made of: characters of text, or whole pages of token ids. A key is bytes in both cases, so
// that it is compared at the speed of memory; the grain says where it may be cut, and how many units it is.
type grain struct {
	page int // bytes of a page of token ids; 0: text
}

const tokenBytes = 4

// maxPage is the greatest page, in tokens.
const maxPage = 1<<16/tokenBytes - 1

func pagesOf(tokens int) grain { return grain{page: min(max(1, tokens), maxPage) * tokenBytes} }

// tokenKey is the memory of the tokens, as a key.
func tokenKey(tokens []uint32) string {
	if len(tokens) == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Pointer(&tokens[0])), len(tokens)*tokenBytes)
}

// whole is the key without what does not fill a page.
func (g grain) whole(key string) string {
	if g.page == 0 {
		return key
	}
	return key[:len(key)-len(key)%g.page]
}

// units is the length of a key in characters or tokens.
func (g grain) units(key string) int {
	if g.page != 0 {
		return len(key) / tokenBytes
	}
	return characters(key)
}

// head is what the children of a node are told apart by: the first character of a key, or its first page.
func (g grain) head(key string) head {
	if g.page != 0 {
		page := key[:g.page]
		return head{uint32(xxhash.Sum64String(page)), page}
	}
	character := uint32(key[0])
	for i := 1; i < min(4, len(key)) && continues(key[i]); i++ {
		character = character<<8 | uint32(key[i])
	}
	return head{digest: character}
}

// common is how many bytes of whole units an edge and a key share from their start.
func (g grain) common(edge, key string) int {
	if len(key) >= len(edge) && key[:len(edge)] == edge {
		return len(edge)
	}
	n := sharedBytes(edge, key)
	if g.page != 0 {
		return n - n%g.page
	}
	for n > 0 && (n < len(edge) && continues(edge[n]) || n < len(key) && continues(key[n])) {
		n-- // they differ within a character, whose first bytes are equal
	}
	return n
}

// cut is where a key is cut whose beginning may be so many bytes long at most; never at 0.
func (g grain) cut(key string, most int) int {
	if g.page != 0 {
		most = max(most-most%g.page, g.page)
	}
	if len(key) <= most {
		return len(key)
	}
	n := most
	if g.page == 0 {
		for n > most-4 && n > 1 && continues(key[n]) {
			n--
		}
	}
	return n
}

// first is the beginning of the key that is at most so many units long.
func (g grain) first(key string, units int64) string {
	if int64(len(key)) <= units {
		return key
	}
	if g.page != 0 {
		return g.whole(key[:min(int64(len(key)), units*tokenBytes)])
	}
	n := min(int64(len(key)), units) // so many characters are at least so many bytes
	for n < int64(len(key)) {
		missing := units - int64(characters(key[:n]))
		if missing <= 0 {
			break
		}
		n = min(int64(len(key)), n+missing)
	}
	for n < int64(len(key)) && continues(key[n]) {
		n++
	}
	return key[:n]
}

// continues tells whether a byte goes on with a character of UTF-8.
func continues(b byte) bool { return b&0xC0 == 0x80 }

const highBits = 0x8080808080808080

// characters counts the code points of a text: the bytes that begin one. Most text is ASCII, 32 bytes of which are one test.
func characters(text string) int {
	b := unsafe.Slice(unsafe.StringData(text), len(text))
	n := len(b)
	for len(b) >= 32 {
		w0, w1 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		w2, w3 := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		if (w0|w1|w2|w3)&highBits != 0 {
			n -= continuing(w0) + continuing(w1) + continuing(w2) + continuing(w3)
		}
		b = b[32:]
	}
	for _, c := range b {
		if continues(c) {
			n--
		}
	}
	return n
}

// continuing counts the bytes of a word that go on with a character: the upper of their first two bits is set, the lower is not.
func continuing(word uint64) int { return bits.OnesCount64(word & ^(word << 1) & highBits) }

// sharedBytes is the number of bytes that two strings share from their start.
func sharedBytes(s, t string) int {
	n := min(len(s), len(t))
	a, b := unsafe.Slice(unsafe.StringData(s), n), unsafe.Slice(unsafe.StringData(t), n)
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
