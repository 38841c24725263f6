package engine

import (
	"encoding/binary"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// PageDigests appends a digest for each whole page of a prompt. It stands for the page and all pages in front of it, so equal digests
// mean equal prompts up to there.
func PageDigests(digests []uint64, tokens []uint32, pageSize int) []uint64 {
	var before uint64
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		h := xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(&tokens[0])), 4*pageSize))
		before = (before^h)*0x9e3779b97f4a7c15 + h>>31 // odd: multiplying loses nothing, and the order matters
		digests = append(digests, before)
	}
	return digests
}

// tokenizer makes tokens of a prompt: an id is one, and so are four characters of text.
type tokenizer struct {
	tokens []uint32
	part   [charsPerToken]rune
	n      int // characters in part
}

// text appends the characters of a JSON string, or of each string of a list.
func (t *tokenizer) text(value []byte) {
	text := inner(value)
	for len(text) > 0 {
		r, size := character(text)
		text = text[size:]
		t.part[t.n] = r
		if t.n++; t.n == charsPerToken {
			t.end()
		}
	}
}

// end makes the last token of a text, which may be a short one.
func (t *tokenizer) end() {
	if t.n == 0 {
		return
	}
	var b [4 * charsPerToken]byte
	for i, r := range t.part[:t.n] {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(r))
	}
	t.tokens = append(t.tokens, uint32(xxhash.Sum64(b[:4*t.n])))
	t.n = 0
}

// prompt appends what a prompt in any of its forms is: text, ids, or a list of either. Those of a batch follow each other.
func (t *tokenizer) prompt(value []byte) {
	if len(value) == 0 || value[0] != '[' {
		t.text(value)
		t.end()
		return
	}
	eachElement(value, func(v []byte) {
		switch v[0] {
		case '"':
			t.text(v)
			t.end()
		case '[':
			eachElement(v, t.id)
		default:
			t.id(v)
		}
	})
}

func (t *tokenizer) id(value []byte) {
	n, _ := number(value)
	t.tokens = append(t.tokens, uint32(n))
}

// chat appends the text of messages and of the instruction beside them, which stands in front.
func (t *tokenizer) chat(messages, beside []byte) {
	eachContent(beside, t.text)
	eachContent(messages, t.text)
	t.end()
}

// eachContent calls f with each string of content: a string, a list of parts with text, a list of messages with content.
func eachContent(value []byte, f func(text []byte)) {
	if len(value) == 0 || value[0] != '[' {
		f(value)
		return
	}
	eachElement(value, func(v []byte) {
		if v[0] == '"' {
			f(v)
			return
		}
		eachField(v, func(k, inside []byte) {
			switch string(k) {
			case "text":
				f(inside)
			case "content":
				eachPart(inside, f)
			}
		})
	})
}

// eachPart is eachContent without a further level, so that no depth of nesting makes it recurse.
func eachPart(value []byte, f func(text []byte)) {
	if len(value) == 0 || value[0] != '[' {
		f(value)
		return
	}
	eachElement(value, func(part []byte) {
		eachField(part, func(k, v []byte) {
			if string(k) == "text" {
				f(v)
			}
		})
	})
}
