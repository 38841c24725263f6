// Package replay simulates a fleet of inference engines in virtual time, with the policies of the gateway in front of it.
//
// # What runs
//
// The policies are the real ones, driven as the gateway's stages drive them: an exchange, a list of candidates, the moments of the head
// and the first byte, the end. Their clock is the simulation's. The engines are those of cmd/mockengine, without waiting. [Run] finds for
// each policy the rate that the fleet can carry (its capacity, by bisection) and measures it at shares of the knee, which is the
// capacity of least_work. What a perfect gateway could do is the [Oracle]: true queues, and one cache for all engines.
//
// # What may be relied on
//
// A seed gives the same figures every time: workloads are made before a run, a rate only stretches them, and random choices come
// from a source of the run's own. After every run the accounts of caches and of requests in flight are 0, or the run is an error. Runs
// share nothing that they change: they go on side by side on all cores, and their order does not matter.
//
// # What it does not show
//
// The network and the gateway take no time. Attention costs the same however long the context is; there is no preemption, no
// prefill/decode split, no cache on the host, and answers are not reused as prefixes.
// Gateways know from the start how many tokens each engine's cache holds and how many requests it runs, as from labels; a real one
// without these, and without load reports, takes a cache to hold 400,000 tokens, which costs least_work 9 to 15 % where it is twice that.
package replay
