// Command picker chooses workers and forwards nothing: it answers an inference request with the URL of the worker that the request
// should go to. A proxy that has the bytes already asks it, and sends them itself.
//
// # The same chains
//
// It takes the gateway's own chains and changes their end: "forward" is replaced by a stage that answers. So models, aliases,
// health and policies are those of `smg launch`. "retry" and "in_flight" go: the caller tries again by asking again, and how long its
// request is in flight is not seen from here.
//
// # Why it is no dry run
//
// The caller acts on the choice, so the choice is booked: the next one goes to the next worker, and metrics count it. A dry run
// books nothing, and round robin would name the same worker for ever. A dry run is right for a person who asks why: POST
// with ?explain is one, and answers what the choice would be and whom the filters left out.
//
// # What it cannot know
//
// Circuit breakers and requests in flight follow answers, which the picker never sees: health checks alone take a worker out, and
// a policy that compares requests in flight sees none. Choose one that does not.
package main
