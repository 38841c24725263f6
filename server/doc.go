// Package server is the gateway that people run: its routes as pipelines of the built-in stages, the API for its workers, and
// start and stop.
//
// # What happens
//
// [Run] binds the ports of a [Config], makes what the routes share, assembles one chain for each route, and serves until a
// signal ends it. No worker is contacted before every port is bound, and listening does not wait for workers: GET /readiness
// tells when there is one. [Pipelines] shows the chains without running any.
//
// # What you may rely on
//
// Whatever is refused here, is refused in the form of its route's clients, with its code in X-SMG-Error-Code and the request's
// id in x-request-id. At the first SIGTERM or SIGINT the gateway stops being ready, goes on serving while load balancers
// notice, and then lets the requests in flight end, streams included, within the grace period.
//
// # What you must not do
//
// A Config is not changed once it is in use, and Run does not check it: call [Config.Validate] first.
//
// # Where next
//
// [New] is the gateway as an http.Handler of your own server, [Handler] serves chains of your own. The whole way of a request
// stands in routes.go. Nothing here has a door that a program of your own does not have: see package pipeline for a gateway
// made of the same parts.
package server
