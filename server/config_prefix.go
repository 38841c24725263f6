package server

import "math"

// PrefixConfig tunes prefix_hash.
type PrefixConfig struct {
	PrefixTokens     int     `name:"prefix-token-count" default:"256" help:"Tokens at the head of a prompt (at least 1) that are hashed; four times as many characters of a prompt that comes as text."`
	PrefixLoadFactor float64 `name:"prefix-hash-load-factor" default:"1.25" help:"A worker is passed over if it has more in flight than this multiple of the mean (at least 1.0),"`
	PrefixBalanceAbs int64   `name:"prefix-hash-balance-abs-threshold" default:"10" help:"and this many requests more than the mean (at least 0). 0: the multiple alone decides."`
	CacheBoundaries  []int   `name:"cache-boundaries" type:"numbers" placeholder:"TOKENS ..." help:"Lengths in tokens, above 0 and ascending: of a prompt the longest of these heads is hashed whose worker is not too busy. Unset: the length of --prefix-token-count alone."`
}

func defaultPrefix() PrefixConfig {
	return PrefixConfig{PrefixTokens: 256, PrefixLoadFactor: 1.25, PrefixBalanceAbs: 10}
}

func (c *PrefixConfig) check(found *violations) {
	found.whole("--prefix-token-count", int64(c.PrefixTokens), 1, math.MaxInt32)
	found.fraction("--prefix-hash-load-factor", c.PrefixLoadFactor, 1, math.MaxFloat64)
	found.whole("--prefix-hash-balance-abs-threshold", c.PrefixBalanceAbs, 0, math.MaxInt64)
	for i, b := range c.CacheBoundaries {
		switch {
		case b < 1:
			found.whole("--cache-boundaries", int64(b), 1, math.MaxInt32)
		case i > 0 && b <= c.CacheBoundaries[i-1]:
			found.add("--cache-boundaries", b, "must be above the boundary before it (%d)", c.CacheBoundaries[i-1])
		}
	}
}
