// Package pipeline assembles the stages of a route into one call chain, and checks the chain before it serves.
//
// # The life of a request
//
// A [Stage] does its part before it calls next, after next returns, or both. next returns when everything behind it is over:
// the response body has been relayed to its last byte, or failed, or the client has left. What a stage must undo, it defers.
// So "count in flight" is an increment, a deferred decrement and a call; "retry" is a loop around next.
//
// # What a stage may rely on
//
// [Assemble] refuses a chain in which a stage needs a fact that no stage before it gives. So a stage reads the fields of the
// [Exchange] that its [Contract] names without checking them, and reads no others. One that ends the request returns an
// [*Error], writing nothing: the response is made of it in one place, if nothing has been written yet. A stage that panics
// gives its request a 500; what the stages around it have deferred still happens.
//
// # What a stage must not do
//
// A stage is shared by all requests: what Handle writes on it is atomic or locked. An [Exchange] is reused after its request:
// no goroutine that outlives Handle may hold on to it; see [Exchange.Detach] for work that outlives the response. No stage
// calls next twice at once; parallel legs run inside one stage. No stage touches a type of net/http or of a web framework:
// the other side is a [Client].
//
// # What it costs
//
// A stage that does nothing costs about two nanoseconds, in a chain of ten about five on average (processors predict only so
// many returns), and no allocation. Exchanges are pooled. Nothing is looked up by name
// while a request is served: facts of other programs ([NewFact]) get their place in every exchange when they are made.
//
// # What runs beside it
//
// A stage names the background work that it relies on as a [Dependency]. A [Runtime] starts those that its chains use, starts
// one again that dies, and stops those that nobody uses any more when other chains take over.
//
// Where next: the examples of [Assemble] and [NewFact], then package stages for the stages that exist.
package pipeline
