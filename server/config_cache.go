package server

import "math"

// CacheConfig tunes the policies that remember which worker has seen a prompt; bucket has the balance thresholds and manual the
// eviction interval in common with them.
type CacheConfig struct {
	CacheThreshold       float64 `name:"cache-threshold" aliases:"cache-match-threshold" default:"0.3" help:"Share of a prompt, 0.0 to 1.0, that a worker must have seen for it to be kept there: more than this."`
	BalanceAbs           int64   `name:"balance-abs-threshold" aliases:"spill-abs-threshold" default:"64" help:"A worker may be too busy for its prompts with this many requests more in flight than the mean (at least 0). For bucket: characters or tokens."`
	BalanceRel           float64 `name:"balance-rel-threshold" aliases:"spill-rel-threshold" default:"1.5" help:"It is, if that is also above this multiple of the mean (at least 1.0)."`
	BalanceTokenUsage    float64 `name:"balance-token-usage-threshold" default:"1.0" help:"Spread of the workers' KV cache usage, a share above 0, from which prompts go where the wait is least. 1.0 and more: never."`
	OverloadTokenUsage   float64 `name:"overload-token-usage-threshold" default:"1.0" help:"KV cache usage of the fullest worker, a share above 0, from which they do. 1.0 and more: never."`
	OverlapDecay         float64 `name:"overlap-decay" default:"0" help:"How much a worker's backlog takes from the worth of what it has cached (at least 0). 0: nothing."`
	SelectionTemperature float64 `name:"selection-temperature" default:"0" help:"How much chance has a say among workers that have cached different parts of a prompt (at least 0). 0: none, the largest part wins."`
	CountHeld            bool    `name:"cache-count-held" help:"Count a request whole until its worker's next load report, what the worker has cached of the prompt included; else only the rest counts."`
	EvictionInterval     Seconds `name:"eviction-interval" aliases:"eviction-interval-secs" default:"60" help:"Seconds between rounds that shorten the index of prompts and drop idle routing keys. 0: no idle key is dropped; cache_aware needs at least 1."`
	MaxTreeSize          int64   `name:"max-tree-size" default:"67108864" help:"Characters, or tokens, to which a round shortens the index of a model (at least 1)."`
	IndexMemory          int64   `name:"index-memory-bytes" default:"1073741824" help:"Bytes (at least 1) that the indexes of all models may take together, at any time."`
	BlockSize            int     `name:"block-size" default:"16" help:"Tokens of a page (at least 1): prompts that come as token ids are compared page by page."`
	CacheIndex           string  `name:"cache-index" default:"tree" enum:"tree" help:"Kind of index: ${enum}."`
}

func defaultCache() CacheConfig {
	return CacheConfig{
		CacheThreshold: 0.3, BalanceAbs: 64, BalanceRel: 1.5, BalanceTokenUsage: 1, OverloadTokenUsage: 1,
		EvictionInterval: 60, MaxTreeSize: 1 << 26, IndexMemory: 1 << 30, BlockSize: 16, CacheIndex: "tree",
	}
}

// check also looks at values that the policy does not read: they would fail on the day it is changed.
func (c *CacheConfig) check(found *violations) {
	found.fraction("--cache-threshold", c.CacheThreshold, 0, 1)
	found.whole("--balance-abs-threshold", c.BalanceAbs, 0, math.MaxInt64)
	found.fraction("--balance-rel-threshold", c.BalanceRel, 1, math.MaxFloat64)
	found.fraction("--balance-token-usage-threshold", c.BalanceTokenUsage, math.SmallestNonzeroFloat64, math.MaxFloat64)
	found.fraction("--overload-token-usage-threshold", c.OverloadTokenUsage, math.SmallestNonzeroFloat64, math.MaxFloat64)
	found.fraction("--overlap-decay", c.OverlapDecay, 0, math.MaxFloat64)
	found.fraction("--selection-temperature", c.SelectionTemperature, 0, math.MaxFloat64)
	found.seconds("--eviction-interval", c.EvictionInterval, 0)
	found.whole("--max-tree-size", c.MaxTreeSize, 1, math.MaxInt64)
	found.whole("--index-memory-bytes", c.IndexMemory, 1, math.MaxInt64)
	found.whole("--block-size", int64(c.BlockSize), 1, math.MaxInt32)
}

// checkEviction: without rounds the index of cache_aware would stay as long as its memory allows, of every model.
func (c *Config) checkEviction(found *violations) {
	if c.Policy == "cache_aware" && c.EvictionInterval == 0 {
		found.add("--eviction-interval", c.EvictionInterval, "must be at least 1 with --policy cache_aware")
	}
}
