package replay

import (
	"math"
	"slices"
)

// Segment is a part of a prompt: so many tokens, which are the same wherever the segment stands.
type Segment struct {
	ID     uint64
	Tokens int
}

// tokensOf is the length of a prompt.
func tokensOf(prompt []Segment) int {
	n := 0
	for _, s := range prompt {
		n += s.Tokens
	}
	return n
}

// tokenizer makes the ids of prompts' tokens. It keeps those of long segments that it has met again: to copy them takes a fifth of the
// time, and a run makes some hundred millions.
type tokenizer struct {
	kept [1 << 10]struct {
		id  uint64 // of the last segment with this place
		ids []uint32
	}
}

// longSegment is how many tokens a segment has at least that is kept.
const longSegment = 1024

// append appends the ids of a prompt's tokens. Segments of different ids have different tokens.
func (t *tokenizer) append(ids []uint32, prompt []Segment) []uint32 {
	for _, s := range prompt {
		k := &t.kept[mix(s.ID)%uint64(len(t.kept))]
		switch {
		case s.Tokens < longSegment:
			ids = appendTokens(ids, s)
		case k.id != s.ID:
			k.id, k.ids = s.ID, k.ids[:0]
			ids = appendTokens(ids, s)
		default:
			if len(k.ids) < s.Tokens {
				k.ids = appendTokens(k.ids[:0], s)
			}
			ids = append(ids, k.ids[:s.Tokens]...)
		}
	}
	return ids
}

func appendTokens(ids []uint32, s Segment) []uint32 {
	before := len(ids)
	ids = slices.Grow(ids, s.Tokens)[:before+s.Tokens]
	part, state := ids[before:], mix(s.ID)*weyl
	for ; len(part) >= 2; part = part[2:] { // as little as will do, and two at once
		part[0] = uint32((state + weylSquare) >> 32)
		state += 2 * weylSquare & math.MaxUint64
		part[1] = uint32(state >> 32)
	}
	if len(part) > 0 {
		part[0] = uint32((state + weylSquare) >> 32)
	}
	return ids
}

// appendPages appends a digest for each whole page of a prompt. Like [engine.PageDigests] it stands for the page and all in front of it,
// but it is made of the segments: a page is which part of which segment is where in it.
func appendPages(digests []uint64, prompt []Segment, page int) []uint64 {
	before, inside, room := uint64(0), uint64(0), page
	for _, s := range prompt {
		name := mix(s.ID)
		for at := 0; at < s.Tokens; {
			n := min(room, s.Tokens-at)
			inside = mix(inside ^ mix(name^uint64(at)<<32^uint64(n)))
			at += n
			if room -= n; room == 0 {
				before = mix(before ^ inside)
				digests = append(digests, before)
				inside, room = 0, page
			}
		}
	}
	return digests
}

// misjudged is a prompt as one sees it who counts its tokens wrongly, by up to so large a share in either direction: each segment by a
// factor of its own, so that equal prefixes stay equal, as they do where tokens are estimated from characters.
func misjudged(seen []Segment, prompt []Segment, share float64, alike uint) []Segment {
	for _, s := range prompt {
		factor := 1 + share*(2*unit(s.ID>>alike)-1)
		seen = append(seen, Segment{s.ID, max(1, int(float64(s.Tokens)*factor+0.5))})
	}
	return seen
}

// unit is a number from 0 to below 1 that depends on the id alone.
func unit(id uint64) float64 { return float64(mix(id+0x51ed)>>11) / (1 << 53) }

// weyl is an odd number without a pattern: 2^64 by the golden ratio.
const weyl = 0x9e3779b97f4a7c15

const weylSquare = weyl * weyl & math.MaxUint64

// mix scatters an id over 64 bits (the finalizer of SplitMix64).
func mix(z uint64) uint64 {
	z += weyl
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
