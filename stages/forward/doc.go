// Package forward carries requests to workers and relays their answers.
//
// # The client
//
// [Transport] is a lean HTTP/1.1 client. It writes the head and a small body with one write, parses the answer's head in place,
// and hands the body on in the connection's own buffer; a request allocates one string, from which all header fields are
// cut. Idle connections wait on a stack for each address. What is not plain HTTP/1.1 goes through a [http.Transport].
//
// # What you may rely on
//
// Every request has exactly one framing and one Host field. An answer that two parsers could read in two ways is refused, and a
// connection is reused only if everything about the last answer was in order. A request that got no byte of an answer is
// sent a second time at most. However a call ends, its connection is idle or closed when the call is.
//
// # What you must not do
//
// A piece of a body is valid until the next one is asked for. A call is of one goroutine, but for Interrupt; it is reused only
// when nobody is left who could interrupt it.
//
// # What it costs
//
// A write, a read that finds nothing yet, and a read; see BenchmarkSend. A connection that waits holds a buffer of 4 KiB.
package forward
