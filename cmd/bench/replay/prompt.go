package replay

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

// appendTokens appends the ids of a prompt's tokens. Segments of different ids have different tokens.
func appendTokens(ids []uint32, prompt []Segment) []uint32 {
	for _, s := range prompt {
		state := mix(s.ID)
		for range s.Tokens {
			state = state*6364136223846793005 + 1442695040888963407 // Knuth's linear congruential generator
			ids = append(ids, uint32(state>>33))
		}
	}
	return ids
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

// mix scatters an id over 64 bits (the finalizer of SplitMix64).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
