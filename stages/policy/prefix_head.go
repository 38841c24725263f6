package policy

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/smg-go/smg/pipeline"
)

// charsPerToken is how many characters of text stand for one token.
const charsPerToken = 4

// heads are the parts of prompts that are hashed.
type heads struct {
	tokens     int   // of a prompt that reaches no boundary, at least 1
	boundaries []int // tokens, ascending
}

// promptHead is what is hashed of one request.
type promptHead struct {
	kind  headKind
	level int // the boundary that it ends at; 0 for a fixed length or a routing key
	end   int // in tokens, or in bytes of the text or the key
}

type headKind uint8

const (
	ofKey headKind = iota
	ofTokens
	ofText
)

// deepest is the longest head of a request; ok is false if there is nothing to hash.
func (h *heads) deepest(x *pipeline.Exchange) (deepest promptHead, ok bool) {
	if key := x.Key.Header(); key != "" {
		return promptHead{kind: ofKey, end: len(key)}, true
	}
	if n := len(x.Prompt.Tokens); n > 0 {
		if i := h.reached(n) - 1; i >= 0 {
			return promptHead{ofTokens, h.boundaries[i], h.boundaries[i]}, true
		}
		return promptHead{kind: ofTokens, end: min(n, h.tokens)}, true
	}
	if x.Prompt.Text == "" {
		return promptHead{}, false
	}
	deepest = promptHead{kind: ofText}
	at, chars := 0, 0
	for _, b := range h.boundaries {
		to, there := runes(x.Prompt.Text, at, b*charsPerToken-chars)
		if !there {
			break
		}
		at, chars = to, b*charsPerToken
		deepest.level, deepest.end = b, to
	}
	if deepest.level == 0 {
		deepest.end, _ = runes(x.Prompt.Text, 0, h.tokens*charsPerToken)
	}
	return deepest, true
}

// shorter is the head at the next shorter boundary; ok is false if there is none.
func (h *heads) shorter(x *pipeline.Exchange, longer promptHead) (shorter promptHead, ok bool) {
	i := h.reached(longer.level-1) - 1
	if longer.level == 0 || i < 0 {
		return promptHead{}, false
	}
	shorter = promptHead{longer.kind, h.boundaries[i], h.boundaries[i]}
	if longer.kind == ofText {
		shorter.end, _ = runes(x.Prompt.Text, 0, h.boundaries[i]*charsPerToken)
	}
	return shorter, true
}

// reached is how many boundaries are at n or before it.
func (h *heads) reached(n int) int {
	k := 0
	for k < len(h.boundaries) && h.boundaries[k] <= n {
		k++
	}
	return k
}

// runes is the position n characters behind at; if the text ends before, its end, and there is false.
func runes(text string, at, n int) (end int, there bool) {
	for ; n > 0 && at < len(text); n-- {
		if text[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at, n <= 0
}

// position is where the head is on a ring: that of its hash, in 16 hexadecimal digits.
func (h promptHead) position(x *pipeline.Exchange) uint64 {
	var hash [8]byte
	var digits [16]byte
	binary.BigEndian.PutUint64(hash[:], h.hash(x))
	hex.Encode(digits[:], hash[:])
	return positionOf(digits[:])
}

func (h promptHead) hash(x *pipeline.Exchange) uint64 {
	switch h.kind {
	case ofTokens:
		return hashTokens(x.Prompt.Tokens[:h.end])
	case ofText:
		return xxh3.HashString(x.Prompt.Text[:h.end])
	}
	return xxh3.HashString(x.Key.Header())
}

var headBytes = sync.Pool{New: func() any { return new([]byte) }}

// hashTokens is the hash of tokens as little-endian numbers of 32 bits.
func hashTokens(tokens []uint32) uint64 {
	buf := headBytes.Get().(*[]byte)
	defer headBytes.Put(buf)
	*buf = (*buf)[:0]
	for _, t := range tokens {
		*buf = binary.LittleEndian.AppendUint32(*buf, t)
	}
	return xxh3.Hash(*buf)
}
