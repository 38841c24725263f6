// Command bench measures what a gateway adds between a client and an inference engine, side by side with its peers.
//
// # What it measures
//
// "bench overhead" sends chat requests of several sizes over several numbers of connections to an engine that answers at once,
// directly and through each peer in turn. "bench stream" holds many event streams open, each of them 100 events a second. Both
// print throughput, latency, the CPU time that the process tree of the peer spent on one request or event, and its memory.
// Each figure is also given relative to nginx and to smg 1.13.0, and a last table says whether smg is where it should be.
//
// "bench faults" and "bench discovery" look at smg alone: what becomes of requests when something goes wrong, and how soon and for how
// much smg follows the pods of a cluster. Both run engines of their own; pods need the binary of an API server, see .ci/testcluster.
//
// "bench replay" is something else: it simulates a fleet of engines in virtual time, with the policies of smg in front of it, and says how
// well each places requests. See the package replay.
//
// # What may be relied on
//
// Peers run one at a time and interleaved by round, so that a noisy minute of the machine does not hit one of them alone; the
// median over the rounds is reported, with the least and the greatest. A request with another status than 200, a body of
// another length or a stream that lacks an event is a failure, and a row with a failure does not count.
//
// # What to keep in mind
//
// Load, peer and engine share the machine, so requests per second depend on all three; the CPU time of the peer's own
// processes is the figure that survives noise. Memory is the sum over the peer's processes: pages that they share (nginx
// workers and their master) count once for each. Processes are read from /proc, so figures of CPU and memory need Linux.
//
// # Peers
//
// nginx and HAProxy are looked up in PATH, the others in the virtual environments that peers.sh makes. A peer that is not
// there is listed as "not installed". Everything listens on 127.0.0.1, on ports that the system picks.
package main
