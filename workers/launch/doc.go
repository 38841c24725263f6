// Package launch starts inference engines on this host, waits for them, runs a gateway in front of them and ends them.
//
// # What happens
//
// [Spec.Plan] turns a [Spec] into workers: a command, a port, an environment with the worker's share of the GPUs. It starts
// nothing, so whatever is wrong is found before. [Run] starts them, waits until every one is ready, hands their URLs to the
// gateway, and ends them when the gateway has returned.
//
// # What a caller may rely on
//
// When Run returns, no process of a worker is left: each worker has a session and a process group of its own, and the whole
// group is killed once the worker itself has ended. On Linux, with [Options].Adopt, what has left its group is found and
// killed too. A worker gets SIGTERM first, and [Limits].Stop to end by itself.
//
// If the process itself is killed, it cannot clean up. On Linux the kernel then sends SIGTERM to each worker, not to its children.
//
// # What it does not know
//
// The gateway is a function here, and the engines are commands: this package imports nothing of the module.
package launch
