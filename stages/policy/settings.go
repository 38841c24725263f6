package policy

import (
	"log/slog"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Settings are what policies are made with: the operator's, from flags, or the built-in ones of a policy that a worker's label
// asks for.
type Settings struct {
	// Cache-aware routing; the balance thresholds are bucket's as well, there in characters or tokens.
	CacheThreshold       float64       // share of a prompt that must match, exclusive; 0 to 1
	BalanceAbs           int64         // requests above the mean from which a worker may be hot
	BalanceRel           float64       // multiple of the mean from which it may be; at least 1
	BalanceTokenUsage    float64       // spread of KV usage above which affinity is dropped; 1 and more is off
	OverloadTokenUsage   float64       // KV usage above which affinity is dropped; 1 and more is off
	OverlapDecay         float64       // 0 is off
	SelectionTemperature float64       // 0 is off
	CountHeld            bool          // requests count whole until the next report, what their worker holds of the prompt included
	EvictionInterval     time.Duration // of index, pins and placements; 0 is never
	MaxTreeSize          int64         // characters or tokens of one tree
	IndexMemory          int64         // bytes that all indexes of the process may take
	BlockSize            int           // tokens of a page

	// Hashing of prefixes.
	PrefixTokens     int     // tokens that are hashed; times 4 in characters
	PrefixLoadFactor float64 // multiple of the mean that a worker may have in flight
	PrefixBalanceAbs int64   // requests above the mean that it may have
	Boundaries       []int   // tokens, ascending; none: PrefixTokens alone

	// Expected wait, of least_load alone.
	KVPressureWeight  float64 // seconds
	DefaultThroughput float64 // tokens a second
	MeanPrefillTokens int64
	MaxWaiting        int64 // requests; 0 is no cap

	// Sessions.
	Assignment      Assignment
	Sticky          bool          // a routing key pins requests to a worker, whatever the policy
	MaxIdle         time.Duration // of a pin; 0 is for ever
	RoutingKeyNames []string      // headers, in canonical form

	BucketInterval time.Duration // between two adjustments of bucket's ranges
	BucketRel      float64       // the BalanceRel of bucket; 0: the same

	Shared
}

// Shared is what every policy of a process has from outside. What is nil is replaced by [NewSet] with something that works.
type Shared struct {
	Clock   func() time.Time         // monotonic
	Metrics *telemetry.PolicyMetrics // counts decisions
	Demand  *pipeline.Demand         // what live policies read
	Log     *slog.Logger             // its targets are smg::policies::NAME
	Chance  *Chance                  // random choices; nil does

	upkeep *upkeep      // of the set that the policy belongs to; nil: there is none
	roster *roster      // of the workers that the set has heard of; nil: there is none
	memory *indexMemory // of all prefix indexes of the process; nil: each index has its own
	work   *workBooks   // of all least_work policies of the process; nil: each has its own
}

// BuiltIn are the settings of a policy that a label asks for where the operator's flags are those of another: policies.md, 18.
func BuiltIn(shared Shared) Settings {
	return Settings{
		CacheThreshold: 0.5, BalanceAbs: 32, BalanceRel: 1.1, BalanceTokenUsage: 1, OverloadTokenUsage: 1,
		EvictionInterval: 30 * time.Second, MaxTreeSize: 10000, IndexMemory: 1 << 30, BlockSize: 16,
		PrefixTokens: 256, PrefixLoadFactor: 1.25, PrefixBalanceAbs: 10,
		KVPressureWeight: 0.15, DefaultThroughput: 2000, MeanPrefillTokens: 1024,
		MaxIdle: 4 * time.Hour, RoutingKeyNames: []string{"X-Smg-Routing-Key"}, BucketInterval: 5 * time.Second, BucketRel: 1.0001,
		Shared: shared,
	}
}

// builtInOf are those of one policy. What they have in common with others may differ.
func builtInOf(policy string, shared Shared) Settings {
	s := BuiltIn(shared)
	if plain(policy) == "manual" {
		s.EvictionInterval = time.Minute // pins are many and small; trees grow faster
	}
	return s
}
