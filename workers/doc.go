// Package workers holds the engines behind the gateway: what each is, how it fares, and how it comes and goes.
//
// # What a worker is
//
// A [Worker] is one registered engine. What it is (URL, model, part, settings) never changes after it was made; how it fares
// (status, in flight, breaker, overload) is atomic, so that requests read it without a lock. It outlives its registration for
// as long as requests hold it.
//
// # What a request reads
//
// [Registry.Pool] is one atomic load. The [List] that it returns is immutable and has counts of the members that are not
// ready, whose breaker is not closed, or that are overloaded; at 0, a filter has nothing to look at. So a healthy fleet of any
// size costs nothing to filter, and nothing is allocated.
//
// # How a worker comes and goes
//
// A [Spec] says what to register, [ParseSpec] reads one from JSON. An [Enroller] waits until the engine is healthy, asks it
// what it is, registers it as pending, and sets it ready only after all listeners of the registry know it: no request meets a
// worker that a policy has not heard of. [Enroller.Remove] lets a ready worker drain first. A [HealthLoop] probes what is
// registered and moves it between ready, not_ready and failed; a failure in a time in which this process itself did not run is
// not held against a worker.
//
// Each of these changes is a [Job]. [Jobs] runs one at a time for each address, in order, and so many at once for all; who
// only waits, for an engine to load or a worker to drain, stands in nobody's way. testdata/states shows the life of a worker as
// prose: what is done, and what happens.
//
// # What changes while a worker is registered
//
// Its id and its URL never. [Enroller.Update] and [Enroller.Replace] make the next revision of the same registration
// ([Registry.Replace]): it goes on with the state, the counts and, if that is set alike, the breaker of the one before. Who
// holds an older revision, a request for example, has the same engine; who wants to change something is told that it is not
// there any more.
//
// An engine with data-parallel ranks may be registered as one worker for each ([WithRanks]). They share an address, and no URL
// that leaves the gateway names a rank.
//
// # What an engine says of its load
//
// A [LoadMonitor] asks the engines of ready workers for their load and gives each worker a [Report], or none: policies and the
// metrics read it without a lock. A report that is over a ceiling ([OverloadSettings]) makes its worker overloaded until the next
// one. Both go when the worker leaves the state ready, so that nothing old is ever acted upon.
//
// # What must not be done
//
// A [Listener] is called under the registry's lock: it must be short and must not change the registry. A draining worker never
// leaves that state except by removal. An API key of a worker appears in no response and no log; [Spec] and [Worker] mask it
// when they are printed.
package workers
