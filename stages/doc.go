// Package stages holds the stages that smg's routes are assembled from, one file each, named after the stage.
//
// # The way of a request
//
// In the order in which a route for inference puts them: [RequestID], [HTTPMetrics], [AccessLog], [PayloadLimit], [Auth] or
// [Withhold], [Tenant], [Admission], [Buffer], [Body], [Model], [Prompt], [RoutingKey], [Account], [Retry], and then, once for each attempt: [Candidates], [Available],
// [Breaker], [Overload], [Untried], [Policy], [Dispatch], [InFlight], and forward.To of package stages/forward.
//
// # What a stage promises
//
// Its constructor's comment says what it does, what it answers when it ends a request, and where it stands. What it needs from
// others and gives to them is its contract; a chain in which that does not fit does not assemble.
//
// # Bodies
//
// A body is never decoded and encoded again. [Body] scans it once and notes where the top-level fields stand; whoever reads a
// field reads it in place, and an edit is a splice. What a body means on a route is its [Kind].
//
// # What they share
//
// What several routes share, or what a reload would change, is a value that is made once and handed to the constructors:
// [Buffering], [Models], the registry, the policies.
package stages
