package server

import "math"

// WaitConfig tunes least_load. Other policies that weigh the expected wait use the defaults.
type WaitConfig struct {
	KVPressureWeight  float64 `name:"least-load-kv-pressure-weight" default:"0.15" help:"Seconds that a half full KV cache counts as (at least 0); a fuller one counts as more. 0: nothing."`
	DefaultThroughput float64 `name:"least-load-default-throughput" default:"2000" help:"Tokens a second (above 0) of a worker that does not report its throughput."`
	MeanPrefillTokens int64   `name:"least-load-mean-prefill-tokens" default:"1024" help:"Tokens that a request counts as whose tokens are not known (at least 1)."`
	MaxWaiting        int64   `name:"least-load-max-waiting-requests" default:"0" help:"A worker where this many requests wait is not chosen; if that is so everywhere, the answer is 503. 0: no limit."`
}

func defaultWait() WaitConfig {
	return WaitConfig{KVPressureWeight: 0.15, DefaultThroughput: 2000, MeanPrefillTokens: 1024}
}

func (c *WaitConfig) check(found *violations) {
	found.fraction("--least-load-kv-pressure-weight", c.KVPressureWeight, 0, math.MaxFloat64)
	found.fraction("--least-load-default-throughput", c.DefaultThroughput, math.SmallestNonzeroFloat64, math.MaxFloat64)
	found.whole("--least-load-mean-prefill-tokens", c.MeanPrefillTokens, 1, math.MaxUint32)
	found.whole("--least-load-max-waiting-requests", c.MaxWaiting, 0, math.MaxUint32)
}
