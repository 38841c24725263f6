// Package discovery registers the workers that a cluster or a file names, and removes those that it names no more.
//
// # What happens
//
// A [Source] knows which workers there should be: [Kubernetes] of the pods that match a selector and are Ready, [File] of a manifest. A
// [Discovery] compares that with the workers in the registry, and submits what is different as jobs: registrations, which wait for the
// engine to answer, and removals, which let requests in flight end. It compares whole states. An event says only that it is time to
// look, so that one that is missed or comes late loses nothing: the next pass sees what is still different.
//
// A worker that is wanted no more is cordoned at once: no new request, everything else as before. A pass a second later removes it, or
// lets it go if it is wanted again, so that a pod that blinks costs nothing. Times are those of [Settings].
//
// # What one may rely on
//
// Discovery touches only what it owns, by labels: [LabelPodUID] of pods, [LabelProvider] with the name of any other source. A worker
// that was added by hand stays as it is, also at an address that a pod claims; one whose labels somebody takes away is let go. An API
// server that cannot be reached, or a manifest that cannot be read, changes nothing. Of two pods at one address one wins, always the
// same. [Discovery.Run] is ready at once: a source that is down does not keep a gateway from serving.
//
// # What a source must not do
//
// What [Source].Wanted gives is whole and never half of what was read; nothing that goes wrong may make it shorter. A [Change] is told
// after Wanted shows it. The pair of address and owner is the worker: another owner is another worker, registered when the one before has
// drained.
//
// # What it costs
//
// Requests pay nothing: a cordon is counted where states are. A pass looks at each worker once; changes that never end make about one
// a second.
//
// # Where next
//
// See the example of [New] for a chain with discovery and a source of one's own, without package server. What smg prints of a cluster
// that it cannot read is made by [Examine].
package discovery
