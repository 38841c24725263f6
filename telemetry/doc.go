// Package telemetry is what an operator sees of smg: metrics, log lines and request ids.
//
// # Metrics
//
// [NewMetrics] makes every family at once, on a registry of its own, so a program may hold two. A request never looks a
// series up by labels: it holds a handle that was made once per route ([HTTPMetrics.Route]), per model and endpoint
// ([RouterMetrics.Series]) or per worker ([WorkerMetrics.Add]). Gauges that only repeat what another part already counts are
// read from their owner at the scrape ([WorkerMetrics.SetSource], [AdmissionMetrics.SetSource]), so they cannot drift.
// [Metrics.Run] is the background part, [ListenMetrics] and [ServeMetrics] the listener.
//
// # What a label may hold
//
// Values that a client or a worker could choose are bounded before they become a label: models by [Metrics.ModelLabel],
// methods by [MethodLabel], endpoints by [EndpointOf]. Paths are route templates, error codes those that smg minted itself.
//
// # Logs
//
// [NewLogger] makes the outputs, [Log.Target] and [WithTarget] a logger for one target ("smg::request"). A target's level is
// looked up when the logger is made, so a disabled line costs one atomic load. A record that belongs to a request
// carries a [RequestInfo], in its context or as an attribute.
//
// # What it costs
//
// Handles, [Inflight.Enter] and [Inflight.Leave] allocate nothing; [MintRequestID] allocates the id. The benchmarks show it.
package telemetry
