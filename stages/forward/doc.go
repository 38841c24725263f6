// Package forward carries requests to workers and relays their answers.
//
// [To] is the stage that a chain ends with. It uses a [Transport], smg's own HTTP/1.1 client, or any other http.RoundTripper.
//
// # What reaches the worker
//
// The client's body, byte for byte but for the edits that stages have made; of the client's header fields those on a short
// list, and exactly one Authorization. The worker's own host, never the client's, and exactly one framing.
//
// # What reaches the client
//
// The worker's status, header fields and bytes. What concerns the connection between gateway and worker alone ends here. The
// client is told which worker answered (x-smg-routed-worker-id).
//
// # How things end
//
// However a request ends, its leg says so: answered, unreachable, timed out, broken, client gone. A client that leaves closes
// the worker's connection at once, also while the worker is silent. A stream that breaks is cut visibly, never ended as if it
// were whole. A request that got no byte of an answer is sent a second time at most.
//
// # The client
//
// [Transport] writes the head and a small body with one write, parses the answer's head in place, and hands the body on in the
// connection's own buffer. Idle connections wait on a stack for each address. What is not plain HTTP/1.1 goes through a
// [http.Transport]. An answer that two parsers could read in two ways is refused, and a connection is reused only if
// everything about the last answer was in order; however a call ends, its connection is idle or closed when the call is.
//
// A piece of a body is valid until the next one is asked for. A call is of one goroutine, but for Interrupt; it is reused only
// when nobody is left who could interrupt it.
//
// # What it costs
//
// A write, a read that finds nothing yet, and a read; see BenchmarkSend. A request allocates one string, from which all header
// fields are cut. A connection that waits holds a buffer of 4 KiB.
package forward
